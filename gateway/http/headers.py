"""The headers of a request."""

from __future__ import annotations

import functools
from typing import Any, TypeVar, overload

from starlette.datastructures import Headers
from starlette.types import Scope

T = TypeVar("T")


@functools.lru_cache(256)
def _sent_name(name: str) -> bytes:
    return name.lower().encode("latin-1")


class RequestHeaders(Headers):
    """The headers of a request, with an index: the gateway asks for many that most requests do not have."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope=scope)
        # The first of several headers counts.
        self._first: dict[bytes, bytes] = dict(reversed(self._list))
        self._are_unique = len(self._first) == len(self._list)

    @overload
    def get(self, key: str, /) -> str | None: ...

    @overload
    def get(self, key: str, default: str, /) -> str: ...

    @overload
    def get(self, key: str, default: T, /) -> str | T: ...

    def get(self, key: str, default: Any = None, /) -> Any:
        value = self._first.get(_sent_name(key))
        return default if value is None else value.decode("latin-1")

    def getlist(self, key: str) -> list[str]:
        if self._are_unique:
            value = self.get(key)
            return [] if value is None else [value]
        return super().getlist(key)

    def joined(self, key: str) -> str:
        """Returns the value of a header whose values are a list; an empty text without it."""
        return ",".join(self.getlist(key))
