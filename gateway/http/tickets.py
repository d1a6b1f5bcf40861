"""Tickets: what `EventSource` of a browser sends in place of a token, because it can set no headers.

A client with a token asks for a ticket, and opens a stream with the ticket in the URL. A ticket contains the token,
encrypted with a key of the deployment, so every gateway knows whose it is, and nothing is stored. The token is checked
as if the client had sent it.

URLs get into logs, so a ticket opens a stream for a minute only. `EventSource` connects again with the same URL, and
adds the header `Last-Event-ID`. Together with an id of the same subscription, which no URL contains, a ticket is good
for as long as its token.

A ticket comes with the id of the moment, for the URL: a stream that breaks before its first event continues there.

A cookie would do, too. But browsers send cookies with the requests of any page, which gateways would then have to tell
apart, and not to other origins without further settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from portico.gateway.auth import InvalidToken, KeysUnavailable, OtherScheme
from portico.gateway.event_ids import EventIds
from portico.gateway.operations.responses import FAULTS
from portico.gateway.outages import EVENTS, fault_code, log_fault
from portico.gateway.state import State
from portico.resolvers.cursors import Cursors
from portico.resolvers.errors import InvalidInput

from .refusals import response_of
from .requests import Refused, unauthenticated

PATH = "/graphql/ticket"
LIFE = timedelta(seconds=60)
_BINDING = b"ticket"
NO_KEYS = "The keys that check tokens cannot be read. Try again later."
_NO_STORE = {"Cache-Control": "no-store"}


@dataclass(frozen=True)
class Ticket:
    """What a ticket says: the value of an `Authorization` header, and whether it opens new streams no more."""

    authorization: str
    is_old: bool

    def require_current(self, ids: EventIds, last_id: str | None) -> None:
        """Raises Refused (401) for an old ticket, unless `last_id` is of the subscription that it has opened."""
        if self.is_old and not ids.are_of(last_id or ""):
            raise unauthenticated(InvalidToken("The ticket has expired. Ask for a new one."))


def opened(state: State, text: str) -> Ticket:
    """Returns what a ticket says. Raises Refused (401) if it is none."""
    try:
        authorization, made = state.resources.of(Cursors).decode(_BINDING, 2, text)
    except InvalidInput:
        raise unauthenticated(InvalidToken("The ticket cannot be read. Ask for a new one.")) from None
    return Ticket(authorization, state.clock.now() - made > LIFE)


def endpoint(state: Callable[[], State]) -> Callable[[Request], object]:
    """Returns the handler of POST requests for tickets, which have a token in the header `Authorization`."""

    async def handle(request: Request) -> Response:
        found, authorization = state(), request.headers.get("authorization")
        try:
            caller = await found.authenticator.authenticate(authorization)
        except InvalidToken as error:
            return response_of(unauthenticated(error))
        except KeysUnavailable:
            return response_of(Refused(503, "UNAVAILABLE", NO_KEYS))
        if authorization is None or caller is None:
            missing = OtherScheme("A ticket is for a token. Without one, you need no ticket.")
            return response_of(unauthenticated(missing))
        cursors = found.resources.of(Cursors)
        try:
            now = await found.live.replays.now()
        except Exception as error:
            if fault_code(error) in EVENTS:
                log_fault("fault", error)
                return response_of(Refused(503, "UNAVAILABLE", FAULTS["UNAVAILABLE"]))
            raise
        answer = {
            "ticket": cursors.encode(_BINDING, (authorization, found.clock.now())),
            "seconds": int(LIFE.total_seconds()),
            "eventId": EventIds(cursors, caller.subject).id_of(now),
        }
        return JSONResponse(answer, headers=_NO_STORE)

    return handle
