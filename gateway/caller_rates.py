"""Limits the cost of what one client may ask for in a minute. Each process counts for itself.

A caller with a token has one allowance, from wherever it calls. The anonymous callers of one address share an
allowance. The unit is the cost of an operation, which `PORTICO_MAX_COST` limits, too: about how many fields it can
return. An operation that is not valid costs one unit.

An allowance refills evenly, so a client that has used it up can soon send a cheap operation again. Only one number is
kept for a client: the time at which its allowance is full again (the generic cell rate algorithm, ITU-T I.371).

Source of the headers: the IETF draft "RateLimit header fields for HTTP", version 10.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from portico.gateway.settings import Settings

WINDOW_SECONDS = 60.0
# What an answer says about the allowance of its caller.
ALLOWANCE_HEADERS = ("RateLimit-Policy", "RateLimit")
# A client whose allowance is full again is forgotten when more than this many are kept.
_MOST_KEPT = 50_000
# A network gives each of its members a whole IPv6 subnet of this size.
_IPV6_PREFIX = 64
# Parsing an address takes a hundred times as long as finding it in a cache.
_ADDRESSES_CACHED = 1_024


class RateLimited(Exception):
    """The client has used up its allowance. `seconds` is when to come back, and `headers` say the same."""

    code = "RATE_LIMITED"

    def __init__(self, what: str, limit: int, seconds: int, headers: Mapping[str, str]) -> None:
        super().__init__(
            f"{what} may use {limit:,} units of cost in a minute. Try again in {seconds} s, or ask for less at once."
        )
        self.seconds = seconds
        self.headers = {**headers, "Retry-After": str(seconds)}

    @property
    def extensions(self) -> dict[str, object]:
        return {"code": self.code, "retryAfter": self.seconds}


@dataclass(slots=True)
class _Allowance:
    """What each client of a kind may use in a minute, and since when each has used how much of it."""

    name: str
    what: str
    limit: int
    full_at: dict[str, float]
    # With more clients than these, those whose allowance is full again are looked for.
    most: int = 0

    def forget_full(self, now: float) -> None:
        """Forgets the clients whose allowance is full again.

        It looks at all clients, so it runs again when there are twice as many as it leaves: of many clients that stay,
        each charge would look at all.
        """
        for client in [client for client, full_at in self.full_at.items() if full_at <= now]:
            del self.full_at[client]
        self.most = max(_MOST_KEPT, 2 * len(self.full_at))


class Meter:
    """Counts the cost of one request of a client."""

    def __init__(self, allowance: _Allowance, client: str, clock: Callable[[], float]) -> None:
        self._allowance = allowance
        self._client = client
        self._clock = clock

    def charge(self, cost: float) -> None:
        """Takes the cost from the allowance. Raises RateLimited.

        An operation that costs more than the whole allowance needs a full one. It then takes longer to refill.
        """
        allowance, now = self._allowance, self._clock()
        used = self._used(now)
        seconds = cost * WINDOW_SECONDS / allowance.limit
        missing = used + min(seconds, WINDOW_SECONDS) - WINDOW_SECONDS
        if missing > 0:
            raise RateLimited(allowance.what, allowance.limit, math.ceil(missing), self.headers())
        allowance.full_at[self._client] = now + used + seconds
        if len(allowance.full_at) > allowance.most:
            allowance.forget_full(now)

    def headers(self) -> dict[str, str]:
        """Returns the headers that say what the limit is, how much is left, and in how many seconds it is full."""
        allowance = self._allowance
        used = self._used(self._clock())
        left = max(0, int(allowance.limit * (1 - used / WINDOW_SECONDS)))
        policy, rate = ALLOWANCE_HEADERS
        return {
            policy: f'"{allowance.name}";q={allowance.limit};w={WINDOW_SECONDS:.0f}',
            rate: f'"{allowance.name}";r={left};t={math.ceil(used)}',
        }

    def _used(self, now: float) -> float:
        """Returns the seconds until the allowance is full."""
        return max(0.0, self._allowance.full_at.get(self._client, now) - now)


class Rates:
    """The allowances of all clients of one process."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._caller = _allowance("caller", "A caller", settings.caller_rate)
        self._address = _allowance("address", "The anonymous callers of one address", settings.address_rate)
        self._clock = clock

    def meter(self, subject: str | None, address: str | None) -> Meter | None:
        """Returns the meter of a client; None if no limit applies to it.

        Args:     subject: of the token, None without one.  address: of the client's connection, None if unknown.
        """
        allowance, client = (self._address, _network(address)) if subject is None else (self._caller, subject)
        return None if allowance is None else Meter(allowance, client, self._clock)


def _allowance(name: str, what: str, limit: int | None) -> _Allowance | None:
    return None if limit is None else _Allowance(name, what, limit, {})


@lru_cache(maxsize=_ADDRESSES_CACHED)
def _network(address: str | None) -> str:
    """Returns the part of an address that one client cannot change."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(ipaddress.IPv6Network((parsed, _IPV6_PREFIX), strict=False))
