"""Log lines that clients cause: each different one once, and a bounded number in a minute."""

from __future__ import annotations

import time
from typing import Any

from portico.resolvers.lru import Lru

from .logs import logger

_KEPT, _LINES = 1_000, 60


class BoundedLog:
    """Logs each different thing once, unless it was not seen for long. `not_logged` in a line counts the others."""

    def __init__(self) -> None:
        self._logged: Lru[str, bool] = Lru(_KEPT)
        self._minute = -1
        self._lines = self._hidden = 0

    def add(self, event: str, key: str, **fields: Any) -> None:
        """Logs a warning with these fields. `key` is what differs between things."""
        if self._logged.get(key):
            return
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        if self._lines >= _LINES:
            self._hidden += 1
            return
        self._lines += 1
        self._logged.put(key, True)
        logger().warning(event, **fields, not_logged=self._hidden)
        self._hidden = 0
