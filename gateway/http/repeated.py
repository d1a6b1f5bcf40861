"""Connections that answer repeated requests from the cache without parsing them. See `cache/repeats.py`."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context
from typing import Any, cast

from portico.gateway.cache.kept_answers import KeptAnswer
from portico.gateway.cache.repeats import LONGEST, REPEATABLE, Repeat
from portico.gateway.state import State

from .connections import Exchange, HttpConnection, state_of
from .request_ids import new_request_id


class Repeated:
    """A request with the bytes of an earlier one, while the cache looks for newer writes."""

    __slots__ = ("_connection", "packet", "repeat")

    def __init__(self, connection: RepeatingConnection, packet: bytes, repeat: Repeat[KeptAnswer]) -> None:
        self._connection = connection
        self.packet = packet
        self.repeat = repeat

    def __call__(self, passed: bool) -> None:
        self._connection.looked(self, passed=passed)


class RepeatingConnection(HttpConnection):
    """A connection that remembers the bytes of its requests, and answers those that it knows."""

    cycle: Exchange

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._gateway: State | None = None
        self._repeated: Repeated | None = None
        self._context = copy_context()
        # How many requests have begun in the bytes that are being parsed.
        self._begun = 0
        # When the last request came that was not parsed.
        self._used_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._gateway = None if self.access_log else state_of(self.app_state)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._repeated = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._repeated is not None:
            # The client does not wait for the answer, so the order is that of the parser.
            self._parse_repeated()
        elif len(data) <= LONGEST and self._is_free() and self._repeats(data):
            return
        self._parse(data)

    def on_message_begin(self) -> None:
        self._begun += 1
        super().on_message_begin()

    def shutdown(self) -> None:
        self._parse_repeated()
        super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Closes the connection if it was not used for long. Repeated requests leave the timer as it is."""
        left = self._used_at + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def looked(self, repeated: Repeated, *, passed: bool) -> None:
        """Answers a repeated request after the look, or parses it. Does nothing if it is being parsed already."""
        if repeated is not self._repeated:
            return
        response = self._kept(repeated.repeat) if passed and self._is_free() else None
        if response is None:
            # The look may have ended within another call. The request must not become a part of that call.
            self._context.run(self._parse_repeated)
            return
        self._repeated = None
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_handler()
        self.server_state.total_requests += 1
        self.transport.write(response)
        if self.flow.write_paused:
            self.flow.wrote(len(response))

    def _is_free(self) -> bool:
        """Whether the next byte begins a request whose answer can be written at once."""
        cycle = self.cycle
        if cycle is not None and (cycle.more_body or not cycle.response_complete):
            return False
        is_ending = self._connections.is_draining or self.transport.is_closing()
        return not (self._in_headers or self.flow.write_paused or is_ending)

    def _repeats(self, data: bytes) -> bool:
        """Begins to answer a request with the bytes of an earlier one. Returns False if it must be parsed."""
        cache = None if self._gateway is None else self._gateway.cache
        repeat = None if cache is None else cache.repeats.get(data)
        if cache is None or repeat is None:
            return False
        if repeat.answer is None or repeat.good_until <= time.time():
            cache.repeats.pop(data)
            return False
        repeated = Repeated(self, data, repeat)
        if not cache.fence.ask(repeated):
            return False
        self._stop_waiting()
        self._repeated = repeated
        self._used_at = self.loop.time()
        return True

    def _kept(self, repeat: Repeat[KeptAnswer]) -> bytes | None:
        """Returns the response to a repeated request; None if it is not known any more."""
        gateway, answer = self._gateway, repeat.answer
        if gateway is None or gateway.cache is None or answer is None or repeat.good_until <= time.time():
            return None
        if not gateway.cache.use(answer, gateway.clock.now):
            return None
        return repeat.response(answer, self.server_state.default_headers, new_request_id())

    def _parse_repeated(self) -> None:
        repeated, self._repeated = self._repeated, None
        if repeated is not None and not self.transport.is_closing():
            self._parse(repeated.packet)

    def _parse(self, data: bytes) -> None:
        was_free, self._begun = self._is_free(), 0
        super().data_received(data)
        if was_free and self._begun == 1 and len(data) <= LONGEST:
            self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        """Lets the answer to a request be remembered that arrived alone and whole, and leaves the connection open."""
        cycle, cache = self.cycle, None if self._gateway is None else self._gateway.cache
        if cache is None or cycle is None or self._in_headers or cycle.more_body or cycle.response_complete:
            return
        if cycle.keep_alive and not self.transport.is_closing() and not self.parser.should_upgrade():
            scope: dict[str, Any] = cast("dict[str, Any]", cycle.scope)
            # The endpoint says whether it can be.
            scope[REPEATABLE] = None
            cycle.repeats, cycle.packet = cache.repeats, data
