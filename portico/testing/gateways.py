"""A gateway on a real MongoDB, its callers, its clock, and the commands that it sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import orjson
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent
from starlette.applications import Starlette

from portico.gateway.app import create_app
from portico.gateway.auth import Authenticator
from portico.gateway.clock import Clock, SystemClock
from portico.gateway.http.requests import Request
from portico.gateway.http.streaming import Session, responses
from portico.gateway.imports.runs import Import
from portico.gateway.operations.encoding import EncodedResponse
from portico.gateway.operations.execution import Progress
from portico.gateway.settings import Settings
from portico.gateway.state import State
from portico.gateway.work.jobs import rest
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database
from portico.resolvers.served import Domains
from portico.resolvers.writes.settler import Settler
from portico.schema.roles import Role

from .posting import post

SECRET = Secret("a secret of the tests, long enough to be one")
_SESSION_COMMANDS = {"hello", "ping", "endSessions", "createIndexes", "isMaster", "listIndexes"}
_EVENT_SECONDS = 20.0

AnyGateway = TypeVar("AnyGateway", bound="Gateway")


class SettableClock:
    """A clock that runs like the system's, and can be set forward. A stopped one is only set forward."""

    def __init__(self) -> None:
        self.offset = timedelta()
        self._stopped_at: datetime | None = None

    def now(self) -> datetime:
        """Returns the time that the gateway sees, in UTC."""
        return (self._stopped_at or SystemClock().now()) + self.offset

    def stop(self) -> None:
        """Stops the clock, so that what a slow machine does takes no time."""
        self._stopped_at = SystemClock().now()

    def advance(self, **duration: float) -> None:
        """Sets the clock forward, e.g. by `seconds=31`."""
        self.offset += timedelta(**duration)


class Commands(CommandListener):
    """Records the commands that are sent, without those that only maintain connections."""

    def __init__(self) -> None:
        self.sent: list[Mapping[str, Any]] = []
        self.is_recording = True

    def started(self, event: CommandStartedEvent) -> None:
        # The commands for the jobs' leases do not belong to a request.
        is_lease = event.command.get(event.command_name) == "leases"
        if self.is_recording and event.command_name not in _SESSION_COMMANDS and not is_lease:
            self.sent.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...

    def names(self) -> list[str]:
        """Returns each command with its collection, e.g. `find products`."""
        return [f"{name} {command[name]}" for command in self.sent for name in list(command)[:1]]

    def clear(self) -> None:
        """Forgets the recorded commands."""
        self.sent.clear()


@dataclass
class Answer:
    """The answer to a GraphQL request."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        """The data. Fails if the answer has errors."""
        assert "errors" not in self.body, self.body["errors"]
        return self.body["data"]

    @property
    def codes(self) -> list[str]:
        """The code of each error."""
        return [error["extensions"]["code"] for error in self.body.get("errors", [])]


@dataclass
class Gateway:
    """A running gateway, and the caller that sends its requests."""

    # What is not shown would make a failing example of a property test unreadable.
    http: httpx.AsyncClient = field(repr=False)
    state: State = field(repr=False)
    commands: Commands = field(repr=False)
    settings: Settings = field(repr=False)
    app: Starlette = field(repr=False)
    roles: Sequence[Role] = ()
    subject: str = "tester"
    claims: Mapping[str, Any] = field(default_factory=dict)

    @property
    def db(self) -> Database:
        """The database that resolvers use."""
        return self.state.database

    @property
    def domains(self) -> Domains:
        """The domains that the gateway serves."""
        return self.state.served.domains

    def as_caller(self, subject: str, *roles: Role, **claims: Any) -> Self:
        """Returns the same gateway with another caller, whose token has these claims."""
        return replace(self, subject=subject, roles=roles, claims=claims)

    def token(self, subject: str | None = None, roles: Sequence[Role] | None = None) -> str:
        """Returns a bearer token. The defaults are the caller's subject and roles."""
        chosen = self.roles if roles is None else roles
        return Authenticator(self.settings).issue(
            subject or self.subject,
            list(chosen),
            now=SystemClock().now(),
            lasts=timedelta(days=1),
            own_claims=self.claims,
        )

    async def ask(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        *,
        token: str | None = "",
        operation: str | None = None,
        on_error: str | None = None,
    ) -> Answer:
        """Sends a request by POST. If `token` is None, the caller is anonymous. `on_error` is sent as `onError`."""
        chosen = self.token() if token == "" else token
        headers = {"content-type": "application/json"}
        if chosen is not None:
            headers["authorization"] = f"Bearer {chosen}"
        body: dict[str, Any] = {"query": query, "variables": variables or {}}
        if operation is not None:
            body["operationName"] = operation
        if on_error is not None:
            body["onError"] = on_error
        db = self.state.database
        status, answered, answer = await post(self.app, "/graphql", _encoded(body), headers)
        # What the call has left for after its answer.
        await self.state.resources.of(Settler).settled(db)
        return Answer(status, orjson.loads(answer), answered)

    async def data(self, query: str, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Sends a request that must succeed. Returns its data."""
        return (await self.ask(query, variables, **options)).data

    @contextlib.asynccontextmanager
    async def subscription(
        self, query: str, variables: Mapping[str, Any] | None = None, *, token: str | None = ""
    ) -> AsyncIterator[AsyncGenerator[Any, None]]:
        """Yields the data of each event from now on. Inside of the block, no event is missed.

        Args:     token: as for `ask`.
        """
        progress = Progress()
        answers = self.answers(query, variables, progress, token=token)
        async with contextlib.aclosing(answers):
            first = asyncio.ensure_future(anext(answers))
            listening = asyncio.ensure_future(progress.live.wait())
            await asyncio.wait({first, listening}, return_when=asyncio.FIRST_COMPLETED, timeout=_EVENT_SECONDS)
            try:
                async with contextlib.aclosing(_events(first, answers)) as events:
                    yield events
            finally:
                listening.cancel()
                first.cancel()
                await asyncio.wait({first, listening})

    async def answers(
        self,
        query: str,
        variables: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        *,
        token: str | None = "",
    ) -> AsyncGenerator[EncodedResponse, None]:
        """Yields the responses to a subscription or a live query. `progress` says when it misses nothing more.

        Args:     token: as for `ask`.
        """
        session = Session(self.state, None if token is None else f"Bearer {token or self.token()}", {})
        request = Request(query, variables or {}, None)
        given = responses(self.state.executor, request, session, await session.context(), progress or Progress())
        async with contextlib.aclosing(given):
            async for response in given:
                yield response

    async def import_records(self, importer: str, file: Path, **options: Any) -> Counter[str]:
        """Imports a file of JSON Lines. Returns how many records were created, changed, unchanged and failed."""
        chosen = self.domains.importers[importer].configured(options)
        clock, resources = self.state.clock, self.state.resources
        run = Import(self.db, chosen, clock, lambda _bad: None, lambda _read: None, resources)
        return (await run.run([file])).counts


def _encoded(body: Mapping[str, Any]) -> bytes:
    """Returns the body as JSON. The module of the standard library allows every integer and lone surrogate."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


async def _events(first: asyncio.Future[Any], answers: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    response = await asyncio.wait_for(asyncio.shield(first), _EVENT_SECONDS)
    while True:
        body = orjson.loads(response.json)
        assert "errors" not in body, body["errors"]
        yield body["data"]
        response = await asyncio.wait_for(anext(answers), _EVENT_SECONDS)


def running(
    settings: Settings, *, clock: Clock | None = None, commands: Commands | None = None
) -> contextlib.AbstractAsyncContextManager[Gateway]:
    """Starts a gateway, and stops it at the end of the block."""
    return running_as(Gateway, settings, clock=clock, commands=commands)


@contextlib.asynccontextmanager
async def running_as(
    kind: type[AnyGateway], settings: Settings, *, clock: Clock | None = None, commands: Commands | None = None
) -> AsyncIterator[AnyGateway]:
    """Does the same as `running`, with a subclass of `Gateway`."""
    recorded = commands or Commands()
    app = create_app(settings, clock=clock, listeners=[recorded])
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            gateway = kind(http, app.state.gateway.state, recorded, settings, app)
            await _wait_for_idle_jobs(len(gateway.domains.jobs))
            recorded.clear()
            yield gateway


async def _wait_for_idle_jobs(count: int) -> None:
    """Waits until each job has slept, so that its first run does not overlap with a test."""
    rested: set[asyncio.Task[Any]] = set()
    async with asyncio.timeout(30):
        while not _have_all_rested(rested, count):  # noqa: ASYNC110 - a worker signals nothing
            await asyncio.sleep(0.001)


def _have_all_rested(rested: set[asyncio.Task[Any]], count: int) -> bool:
    """Notes which jobs sleep now. With short pauses, they may never all do at the same time."""
    workers, jobs = (
        {task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") == name}
        for name in ("Worker.run", "Worker._repeat")
    )
    rested |= {task for task in jobs if getattr(_awaited(task), "__name__", "") == rest.__name__}
    return jobs <= rested and len(jobs) == len(workers) * count


def _awaited(task: asyncio.Task[Any]) -> object:
    return getattr(task.get_coro(), "cr_await", None)


async def assert_budget(
    gateway: Gateway, query: str, variables: Mapping[str, Any] | None, commands: Sequence[str]
) -> None:
    """Asserts that the operation succeeds, and sends exactly these commands, in any order, e.g. `["find products"]`."""
    gateway.commands.clear()
    await gateway.data(query, variables)
    assert sorted(gateway.commands.names()) == sorted(commands)
