"""What the tests drive the gateway with."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import httpx
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent
from starlette.applications import Starlette

from portico.gateway.app import create_app
from portico.gateway.auth import Authenticator
from portico.gateway.clock import Clock, SystemClock
from portico.gateway.mongo.faults import Crash
from portico.gateway.settings import Settings
from portico.gateway.state import State
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database
from portico.resolvers.domains import Turn
from portico.schema.roles import Role

from .domains import INVARIANTS, JOBS

# Whether there is time for what takes long, as in `make soak`.
IS_SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SECRET = Secret("a secret of the tests, long enough to be one")
_SESSION_COMMANDS = {"hello", "ping", "endSessions", "createIndexes", "isMaster", "listIndexes"}
_numbers = itertools.count(1)


def with_settings(settings: Settings, kind: type, **fields: Any) -> Settings:
    """The settings, with these of a domain."""
    return replace(settings, slices={**settings.slices, kind: kind(**fields)})


class SettableClock:
    """Runs like the system's, from wherever it is set to."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return SystemClock().now() + self.offset

    def advance(self, **duration: float) -> None:
        self.offset += timedelta(**duration)


class Commands(CommandListener):
    """Records the commands that are sent, without those that only keep a connection."""

    def __init__(self) -> None:
        self.sent: list[Mapping[str, Any]] = []
        self.is_recording = True

    def started(self, event: CommandStartedEvent) -> None:
        # The jobs' leases are no part of a request.
        is_lease = event.command.get(event.command_name) == "leases"
        if self.is_recording and event.command_name not in _SESSION_COMMANDS and not is_lease:
            self.sent.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...

    def names(self) -> list[str]:
        """Each command with its collection, e.g. `find products`."""
        return [f"{name} {command[name]}" for command in self.sent for name in list(command)[:1]]

    def clear(self) -> None:
        self.sent.clear()


@dataclass
class Answer:
    """The answer to a GraphQL request."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        assert "errors" not in self.body, self.body["errors"]
        return self.body["data"]

    @property
    def codes(self) -> list[str]:
        return [error["extensions"]["code"] for error in self.body.get("errors", [])]


@dataclass
class GatewayClient:
    """Asks a running gateway, as a merchant and editor who may also make deposits unless told otherwise."""

    http: httpx.AsyncClient
    state: State
    commands: Commands
    settings: Settings
    app: Starlette
    roles: Sequence[Role] = field(default=(Role.MERCHANT, Role.SERVICE, Role.EDITOR))
    subject: str = "tester"

    @property
    def db(self) -> Database:
        return self.state.database

    def token(self, subject: str | None = None, roles: Sequence[Role] | None = None) -> str:
        chosen = self.roles if roles is None else roles
        return Authenticator(self.settings).issue(
            subject or self.subject, list(chosen), now=SystemClock().now(), lasts=timedelta(hours=1)
        )

    async def ask(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        *,
        token: str | None = "",
        operation: str | None = None,
    ) -> Answer:
        """Sends a request by POST. `token` None is an anonymous caller."""
        chosen = self.token() if token == "" else token
        headers = {} if chosen is None else {"authorization": f"Bearer {chosen}"}
        body: dict[str, Any] = {"query": query, "variables": variables or {}}
        if operation is not None:
            body["operationName"] = operation
        response = await self.http.post("/graphql", json=body, headers=headers)
        return Answer(response.status_code, response.json(), response.headers)

    async def data(self, query: str, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """The data of a request that must succeed."""
        return (await self.ask(query, variables, **options)).data

    async def result(self, mutation: str, given: Mapping[str, Any], **options: Any) -> Any:
        """The union member that a mutation of one field answers, e.g. `result("createCategory", {...})`."""
        text = MUTATIONS[mutation]
        return (await self.data(text, {"input": dict(given)}, **options))[mutation]


async def _first_turn_of_the_jobs() -> None:
    """Until the worker rests, so that nothing of its first turn falls into a test."""
    async with asyncio.timeout(30):
        while not _all_rest():  # noqa: ASYNC110 - a worker tells nobody
            await asyncio.sleep(0.001)


def _all_rest() -> bool:
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    workers, jobs = (
        [found for found in coroutines if getattr(found, "__qualname__", "") == name]
        for name in ("Worker.run", "Worker._repeat")
    )
    return len(jobs) == len(workers) * len(JOBS) and all(map(_rests, jobs))


def _rests(job: object) -> bool:
    return getattr(getattr(job, "cr_await", None), "__name__", "") == "sleep"


@contextlib.asynccontextmanager
async def running(
    settings: Settings, *, clock: Clock | None = None, commands: Commands | None = None
) -> AsyncIterator[GatewayClient]:
    """A gateway from its start to its stop."""
    recorded = commands or Commands()
    app = create_app(settings, clock=clock, listeners=[recorded])
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            await _first_turn_of_the_jobs()
            recorded.clear()
            yield GatewayClient(http, app.state.gateway.state, recorded, settings, app)


_CATEGORY = "... on CategoryPayload { category { id slug name breadcrumbs { categoryId slug name } parent { id } } }"
_PRODUCT = (
    "... on ProductPayload { product { __typename id sku title nonce description "
    "pricing { list { amount currency } retail { amount } savings { amount } pctSavings } "
    "categories { slug } properties { name value } issueDate } }"
)
_NOT_FOUND = "... on NotFound { missingId }"
_INVALID = f"{_NOT_FOUND} ... on InvalidInput {{ path }}"
_EDIT_CONFLICT = "... on ProductEditConflict { current { title nonce } }"
_DELETED = "... on DeletedPayload { deletedId }"
_ACCOUNT = "... on AccountPayload { account { id name balance { amount currency } pendingTransfers { id } } }"
_TRANSFER = (
    "... on TransferPayload { transfer { id state amount { amount currency } "
    "source { id name } destination { id name } } }"
)
_CART = (
    "cart { id status items { sku quantity title unitPrice { amount currency } lineTotal { amount } product { sku } } "
    "total { amount currency } lastModified expiresAt }"
)
_STOCK = "product { sku stock { available reserved sold } }"
_ORDER = "order { id placedAt items { sku quantity title lineTotal { amount } } total { amount } paymentReference }"
_CONTENT = (
    "... on ContentPayload { content { __typename id slug path title tags nonce author { userId name } created updated "
    "... on Page { text } ... on BlogEntry { text publishOn } ... on Section { kind } } }"
)
_CONTENT_CONFLICT = "... on EditConflict { current { title nonce } baseText diff mergedText }"
_DISCUSSION = "... on DiscussionPayload { discussion { id storage commentCount } }"
_COMMENT = (
    "... on CommentPayload { comment { id slug depth text html deleted posted edited replyCount "
    "author { userId name } parent { slug } } }"
)
_INACTIVE = "... on CartInactive { status }"
_SHORT = "... on InadequateInventory { sku available }"


def _mutation(name: str, selection: str) -> str:
    kind = "Tags" if name in {"addTags", "removeTags"} else name[0].upper() + name[1:]
    # Nothing that a caller could act on keeps a cart from being created.
    failures = "" if name == "createCart" else "... on UserError { message }"
    return f"mutation ($input: {kind}Input!) {{ {name}(input: $input) {{ __typename {failures} {selection} }} }}"


MUTATIONS = {
    name: _mutation(name, selection)
    for name, selection in {
        "createCategory": f"{_CATEGORY} {_INVALID} ... on SlugTaken {{ slug }}",
        "renameCategory": f"{_CATEGORY} {_INVALID} ... on SlugTaken {{ slug }}",
        "moveCategory": f"{_CATEGORY} {_NOT_FOUND}",
        "deleteCategory": f"{_DELETED} {_NOT_FOUND}",
        "createProduct": f"{_PRODUCT} {_INVALID} ... on SkuTaken {{ sku }}",
        "updateProduct": f"{_PRODUCT} {_INVALID} {_EDIT_CONFLICT}",
        "deleteProduct": f"{_DELETED} {_NOT_FOUND} {_EDIT_CONFLICT}",
        "restock": f"... on StockPayload {{ {_STOCK} }} {_SHORT} {_INVALID}",
        "createCart": f"... on CartPayload {{ {_CART} }}",
        "addItemToCart": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_SHORT} {_INVALID}",
        "updateCartItem": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_SHORT} {_INVALID}",
        "claimCart": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_NOT_FOUND}",
        "checkout": (
            f"... on CheckoutPayload {{ {_CART} {_ORDER} }} {_INACTIVE} {_NOT_FOUND} "
            "... on PaymentPending { cart { id status } }"
        ),
        "openAccount": f"{_ACCOUNT} ... on InvalidInput {{ path }}",
        "deposit": f"{_ACCOUNT} {_INVALID}",
        "transfer": f"{_TRANSFER} {_INVALID}",
        "createSection": f"{_CONTENT} {_INVALID} ... on SlugTaken {{ slug }}",
        "createPage": f"{_CONTENT} {_INVALID} ... on SlugTaken {{ slug }}",
        "openDiscussion": f"{_DISCUSSION} {_NOT_FOUND}",
        "postComment": f"{_COMMENT} {_INVALID}",
        "editComment": f"{_COMMENT} {_INVALID}",
        "deleteComment": f"{_COMMENT} {_INVALID}",
        "createBlogEntry": f"{_CONTENT} {_INVALID} ... on SlugTaken {{ slug }}",
        "editText": f"{_CONTENT} {_INVALID} {_CONTENT_CONFLICT}",
        "editMetadata": f"{_CONTENT} {_INVALID} {_CONTENT_CONFLICT} ... on SlugTaken {{ slug }}",
        "restoreRevision": f"{_CONTENT} {_INVALID} {_CONTENT_CONFLICT}",
        "addTags": f"{_CONTENT} {_INVALID}",
        "removeTags": f"{_CONTENT} {_INVALID}",
        "deleteContent": f"{_DELETED} {_NOT_FOUND} {_CONTENT_CONFLICT}",
    }.items()
}


def category_input(**fields: Any) -> dict[str, Any]:
    """A valid `CreateCategoryInput`."""
    number = next(_numbers)
    return {"name": f"Category {number}", "slug": f"category-{number}", **fields}


def product_input(**fields: Any) -> dict[str, Any]:
    """A valid `CreateProductInput`."""
    number = next(_numbers)
    return {
        "sku": f"SKU-{number}",
        "type": "Audio Album",
        "title": f"Album {number}",
        "pricing": {"list": {"amount": 1200}, "retail": {"amount": 1100}},
        "details": {"artist": "John Coltrane", "genres": ["Jazz"], "tracks": ["Acknowledgement"]},
        **fields,
    }


async def create_category(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    result = await gateway.result("createCategory", category_input(**fields))
    assert result["__typename"] == "CategoryPayload", result
    found: dict[str, Any] = result["category"]
    return found


async def create_product(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    result = await gateway.result("createProduct", product_input(**fields))
    assert result["__typename"] == "ProductPayload", result
    found: dict[str, Any] = result["product"]
    return found


def stops() -> Iterator[int]:
    """The numbers of the commands to stop before, one after the other."""
    return itertools.count(0)


def half_of_stops(*, odd: bool) -> Iterator[int]:
    """Every second of the stops, for two tests that take one half each; all of them where there is time."""
    return stops() if IS_SOAK else itertools.islice(stops(), int(odd), None, 2)


def stops_of(*, jobs_first: bool) -> Iterator[int]:
    """All stops where the jobs come before the repetition, and every second one where it comes before them."""
    return stops() if jobs_first else half_of_stops(odd=True)


async def run_jobs(gateway: GatewayClient, clock: SettableClock, *names: str) -> int:
    """One turn of every job, or of those with these names, on the database itself. Returns how much was done.

    Raises Crash where it stops there.
    """
    assert set(names) <= {job.name for job in JOBS}
    jobs = [job for job in JOBS if not names or job.name in names]
    try:
        return sum([await job.run(Turn(gateway.db, clock.now(), gateway.state.resources)) for job in jobs])
    except ExceptionGroup as failures:
        # A job goes on after what fails; of a process that is gone nothing does.
        if failures.split(Crash)[1] is None:
            raise Crash from failures
        raise


async def assert_invariants(gateway: GatewayClient) -> None:
    """What `portico doctor` checks holds."""
    for invariant in INVARIANTS:
        assert [problem async for problem in invariant.check(gateway.db)] == [], invariant.name
