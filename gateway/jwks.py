"""The public keys that an issuer of tokens publishes."""

from __future__ import annotations

import asyncio
import math
import time

import httpx
import jwt

from .logs import logger

_JWKS_SECONDS = 300.0
# An unknown key id triggers a new read of the keys, at most this often; while there are no keys, more often.
_JWKS_PAUSE = 10.0
_JWKS_RETRY = 1.0


class Jwks:
    """The public keys of an issuer, by key id."""

    def __init__(self, url: str, transport: httpx.AsyncBaseTransport | None) -> None:
        self._url = url
        self._transport = transport
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._reading = asyncio.Lock()
        self._tried_at = self._fresh_until = -math.inf

    async def key(self, key_id: str | None) -> jwt.PyJWK | None:
        """Returns the key with this id; None if the keys have never been read. Raises InvalidSignatureError."""
        if self._is_due(key_id):
            async with self._reading:
                # Another task may have read the keys in the meantime.
                if self._is_due(key_id):
                    await self._read()
        if not self._keys:
            return None
        if key_id not in self._keys:
            raise jwt.InvalidSignatureError
        return self._keys[key_id]

    def _is_due(self, key_id: str | None) -> bool:
        now = time.monotonic()
        pause = _JWKS_PAUSE if self._keys else _JWKS_RETRY
        return now > self._tried_at + pause and (key_id not in self._keys or now > self._fresh_until)

    async def _read(self) -> None:
        """Reads the keys. If that fails, the keys of the last read stay in use."""
        try:
            async with httpx.AsyncClient(transport=self._transport, timeout=5.0) as client:
                answer = await client.get(self._url)
            keys = jwt.PyJWKSet.from_dict(answer.raise_for_status().json()).keys
        # The library does not check the shape of the response.
        except (httpx.HTTPError, ValueError, TypeError, AttributeError, jwt.PyJWTError) as error:
            logger().warning("cannot read the JWKS", url=self._url, error=str(error) or type(error).__name__)
        else:
            self._keys = {key.key_id: key for key in keys}
            self._fresh_until = time.monotonic() + _JWKS_SECONDS
        finally:
            self._tried_at = time.monotonic()
