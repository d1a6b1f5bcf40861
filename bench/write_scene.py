"""Both sides of `bench.writes`: the callers of the gateway, and the driver for the transactions.

The transactions use documents of their own, in another database of the same server. They have the fields that the write
changes, and the guards without which the write would be wrong. They have no operation ids and no GraphQL.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from bench.adventurers import World
from bench.buyers import SECRET
from bench.connections import Connections
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Document
from portico.schema.roles import Role

BY_HAND = "by_hand"
# A write of one side. It raises RuntimeError if it is refused.
Write = Callable[[], Awaitable[Any]]
SELECTIONS = {
    "openAccount": "... on AccountPayload { account { id } }",
    "deposit": "... on AccountPayload { account { balance { amount } } }",
    "transfer": "... on TransferPayload { transfer { id state } }",
    "restock": "... on StockPayload { product { sku } }",
    "createCart": "... on CartPayload { cart { id } }",
    "addItemToCart": "... on CartPayload { cart { total { amount } } }",
    "checkout": "... on CheckoutPayload { order { id } }",
    "move": "... on CharacterPayload { character { id } }",
    "pickUp": "... on CharacterPayload { character { id } }",
    "drop": "... on CharacterPayload { character { id } }",
    "openDiscussion": "... on DiscussionPayload { discussion { id } }",
    "postComment": "... on CommentPayload { comment { slug } }",
    "join": "... on UserPayload { user { id } }",
    "vote": "... on PostPayload { post { id } }",
    "createPost": "... on PostPayload { post { id } }",
    "createProduct": "... on ProductPayload { product { id } }",
}
_INPUTS = {"pickUp": "ItemInput", "drop": "ItemInput"}


class User:
    """A caller of the gateway, signed in or without a token."""

    def __init__(self, http: Connections, subject: str | None) -> None:
        issuer = Authenticator(Settings(jwt_secret=Secret(SECRET)))
        self._http = http
        self._headers: dict[str, str] = {}
        if subject is not None:
            token = issuer.issue(subject, [Role.ADMIN], now=SystemClock().now(), lasts=timedelta(hours=6))
            self._headers["Authorization"] = f"Bearer {token}"

    async def ask(self, mutation: str, given: dict[str, Any]) -> Any:
        """Send a mutation, and return its payload. Raise RuntimeError for every other answer."""
        kind = _INPUTS.get(mutation, f"{mutation[0].upper()}{mutation[1:]}Input")
        shown = SELECTIONS[mutation]
        text = f"mutation ($input: {kind}!) {{ {mutation}(input: $input) {{ __typename {shown} }} }}"
        answer = await self._http.post("/graphql", {"query": text, "variables": {"input": given}}, self._headers)
        if "errors" in answer or not answer["data"][mutation]["__typename"].endswith("Payload"):
            raise RuntimeError(f"{mutation} was answered with {answer}")
        return answer["data"][mutation]


@dataclass(frozen=True)
class Scene:
    """A gateway, its database, and a driver for the transactions."""

    http: Connections
    world: World
    client: AsyncMongoClient[Document]

    @property
    def by_hand(self) -> Any:
        return self.client[BY_HAND]

    def user(self, subject: str | None) -> User:
        return User(self.http, subject)

    async def transact(self, write: Callable[[AsyncClientSession], Awaitable[None]]) -> None:
        """Run a transaction until it commits: the driver repeats it after conflicts with others."""
        async with self.client.start_session() as session:
            await session.with_transaction(
                write, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority")
            )


@dataclass(frozen=True)
class Pair:
    """The same writes of one client on both sides: the n-th call makes the n-th write."""

    portico: Callable[[int], Awaitable[Any]]
    by_hand: Callable[[int, AsyncClientSession], Awaitable[None]]


# Prepares so many writes of a client, with the number of the client. All clients of a case share a document.
Prepare = Callable[[Scene, int, int], Awaitable[Pair]]


async def changed(writing: Awaitable[Any]) -> None:
    result = await writing
    if not result.matched_count:
        raise RuntimeError("the guard of a transaction did not match")
