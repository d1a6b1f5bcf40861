"""The ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandListener
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from portico.gateway import domains, production
from portico.gateway.http import tickets
from portico.gateway.http.compression import accepts_compression, compression_of
from portico.gateway.http.cors import cors_of
from portico.gateway.http.endpoint import GraphQLEndpoint
from portico.gateway.http.refusals import NO_ROUTE
from portico.gateway.http.websocket import SocketEndpoint
from portico.gateway.mongo import embedded
from portico.gateway.mongo.database_clock import clock_of
from portico.gateway.mongo.driver import Connection, connect
from portico.gateway.mongo.rights import require_rights
from portico.gateway.operations.execution import Executor
from portico.gateway.operations.plans.trace import TraceListener
from portico.gateway.pages import explorer, storefront
from portico.gateway.work.job_runs import AllRuns
from portico.gateway.work.jobs import Worker
from portico.resolvers.cursors import Cursors
from portico.resolvers.declarations import Resources
from portico.resolvers.indexes import create_indexes
from portico.resolvers.served import Served

from .auth import Authenticator
from .cache.kept_answers import CacheCounts, CachedAnswers
from .cache.repeats import REPEATABLE
from .caller_rates import Rates
from .clock import Clock
from .cursor_secret import cursors_of
from .live import Counts, Hub
from .live_queries import LiveCounts, LiveQueries
from .logs import configure, logger
from .metrics import (
    AdmissionMetrics,
    CacheMetrics,
    JobMetrics,
    LiveMetrics,
    Metrics,
    OperationMetrics,
    SubscriptionMetrics,
)
from .reads.feed import Feed, FeedCounts, text_indexes
from .settings import Settings
from .state import State
from .telemetry.exporters import exporters_of
from .telemetry.recording import Telemetry
from .telemetry.start import start

# How long a gateway that stops waits for the requests in flight.
CLOSE_SECONDS = 2.0
# The most that the closing of the database connections takes. They themselves wait less for a server that does not
# answer, but a cancellation can get lost in the driver.
_DRIVER_SECONDS = 10.0
_PATH = "/graphql"


def create_app(
    settings: Settings | None = None, *, clock: Clock | None = None, listeners: Sequence[CommandListener] = ()
) -> Starlette:
    """Returns the gateway. When it starts, it connects, creates its indexes and starts its jobs.

    The running gateway is `app.state.gateway`.

    Args:     clock: by default, the clock of the database server.  listeners: receive every command sent to MongoDB.
    Raises:   SettingsError (at once); EmbeddedError or a driver's error (at start).
    """
    settings = settings or Settings.from_env()
    production.require(settings)
    configure(settings)
    gateway = Gateway(settings, clock, listeners)
    app = _Application(gateway, gateway.middleware(), cors_of(settings), compression_of(settings))
    app.state.gateway = gateway
    return app


class _Application(Starlette):
    """The application. An operation that no middleware changes skips the search for its route.

    The endpoint answers every error itself, so it does not need Starlette's handlers of errors either.
    """

    def __init__(
        self,
        gateway: Gateway,
        own: Sequence[Middleware],
        cors: Sequence[Middleware],
        compression: Sequence[Middleware],
    ) -> None:
        """`own` is the middleware of the domains."""
        super().__init__(
            routes=gateway.routes(),
            middleware=[*compression, *own, *cors],
            exception_handlers=NO_ROUTE,
            lifespan=lambda _app: gateway.running(),
        )
        self._gateway = gateway
        self._has_own_middleware = bool(own)
        self._has_middleware = bool(own or cors)
        self._compresses = bool(compression)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and scope["path"] == _PATH
            and (scope["method"] == "POST" or self._is_plain_get(scope))
            and not self._has_middleware
            and not (self._compresses and accepts_compression(scope))
        ):
            await self._gateway.operations(scope, receive, send)
        else:
            if self._has_own_middleware:
                scope.pop(REPEATABLE, None)
            await super().__call__(scope, receive, send)

    def _is_plain_get(self, scope: Scope) -> bool:
        # Where answers can be compressed, the middleware tells stores that they vary by encoding.
        return scope["method"] == "GET" and not self._compresses and not explorer.wants_page(scope)


class Gateway:
    """A gateway. Several can run in one process: none keeps anything in a module."""

    def __init__(self, settings: Settings, clock: Clock | None, listeners: Sequence[CommandListener]) -> None:
        self._settings = settings
        self._listeners = listeners
        self._clock = clock
        self._state: State | None = None
        self._endpoint: GraphQLEndpoint | None = None
        self._domains = domains.load(settings.domain_names)
        self._authenticator = Authenticator(settings, own_roles=self._domains.roles, own_claims=self._domains.claims)
        self._base = domains.base_resources(settings, self._domains)
        self._executor = Executor(domains.schema_of(self._domains), settings)
        self._rates = Rates(settings)
        self._counts = Counts()
        self._live_counts = LiveCounts()
        self._feed_counts = FeedCounts()
        self._cache_counts = CacheCounts()
        self._runs = AllRuns()
        self._metrics = Metrics(
            [
                OperationMetrics(self._executor),
                AdmissionMetrics(self._executor),
                SubscriptionMetrics(self._counts),
                LiveMetrics(self._live_counts, self._feed_counts),
                *([CacheMetrics(self._cache_counts)] if settings.cache_bytes else []),
                JobMetrics(self._runs),
            ],
            self._domains.gauges,
            self._domains.counters,
        )
        self._exporters = exporters_of(os.environ)
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, Any]]:
        """Connects, creates the indexes and runs the jobs, until the context ends. Yields the state for the server."""
        with contextlib.ExitStack() as held:
            uri: str | None = self._settings.mongodb_uri
            if uri is None:
                hold = await asyncio.to_thread(embedded.attach, self._settings)
                held.callback(hold.close)
                uri = hold.uri
            listeners = [*self._listeners, TraceListener()] if self._settings.show_plans else self._listeners
            telemetry = start(self._exporters)
            telemetry.watch(self._counts)
            connection = connect(self._settings, uri, [*listeners, *telemetry.listeners])
            try:
                await self._prepare(connection)
                base = Resources({**self._base, Cursors: await cursors_of(self._settings, connection.database)})
                async with (
                    self._domains.opened(base, connection.database) as resources,
                    clock_of(connection.database, self._clock) as clock,
                    self._until_requests_end(),
                    self._serving(connection, resources, clock, telemetry),
                ):
                    yield {"gateway": self}
            finally:
                await asyncio.gather(_close(connection), telemetry.aclose())

    async def _prepare(self, connection: Connection) -> None:
        """Checks the rights of the user of MongoDB, and creates the indexes. Raises SettingsError."""
        collections, writes = self._domains.collections, not self._settings.read_only
        await require_rights(connection.database, [spec.name for spec in collections], to_write=writes)
        if writes:
            async for _ in create_indexes(connection.database, collections):
                pass

    async def serve(self, endpoint: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, which counts as in flight. A gateway that stops waits a moment for these requests."""
        task = asyncio.current_task()
        assert task is not None
        self._in_flight.add(task)
        try:
            await endpoint(scope, receive, send)
        finally:
            self._in_flight.discard(task)

    def operations(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serves a request that contains an operation."""
        if self._endpoint is None:
            self._endpoint = GraphQLEndpoint(self.state)
        return self.serve(self._endpoint, scope, receive, send)

    @contextlib.asynccontextmanager
    async def _until_requests_end(self) -> AsyncIterator[None]:
        """Waits at its end for requests that the server has cancelled: an upload rolls back its writes.

        For that, the requests need the database and the services of the domains.
        """
        try:
            yield
        finally:
            others = self._in_flight - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=CLOSE_SECONDS)

    @contextlib.asynccontextmanager
    async def _serving(
        self, connection: Connection, resources: Resources, clock: Clock, telemetry: Telemetry
    ) -> AsyncIterator[None]:
        self._state = self._state_of(connection, resources, clock, telemetry)
        worker = Worker(
            connection.database,
            clock,
            self._settings.job_seconds,
            resources,
            self._domains.jobs,
            database=self._settings.database_address,
            runs=self._runs,
        )
        jobs = [asyncio.create_task(worker.run())] if self._settings.jobs and not self._settings.read_only else []
        logger().info("started", database=self._settings.database, driver=self._settings.driver)
        try:
            yield
        finally:
            await self._state.live_queries.aclose()
            if self._state.cache is not None:
                await self._state.cache.aclose()
            await self._state.starts.aclose()
            await self._state.live.aclose()
            for job in jobs:
                job.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await job
            logger().info("stopped")

    def _state_of(self, connection: Connection, resources: Resources, clock: Clock, telemetry: Telemetry) -> State:
        return State(
            settings=self._settings,
            clock=clock,
            authenticator=self._authenticator,
            executor=self._executor,
            database=connection.database,
            reading=connection.reading,
            served=Served(self._domains, resources),
            rates=self._rates,
            telemetry=telemetry,
            cache=self._cache_of(connection),
            live=Hub(
                connection.database,
                self._domains.events,
                self._counts,
                max_waiting=self._settings.max_waiting_events,
                resume_seconds=self._settings.resume_seconds,
            ),
            live_queries=LiveQueries(
                Feed(
                    connection.database,
                    self._domains.answered_from,
                    self._feed_counts,
                    text_indexes(self._domains.collections),
                ),
                self._live_counts,
                most=self._settings.max_live_queries,
                pause=self._settings.live_pause_ms / 1_000,
            ),
        )

    def _cache_of(self, connection: Connection) -> CachedAnswers | None:
        most = self._settings.cache_bytes
        if not most:
            return None
        if connection.reader is None:
            logger().warning("no answers are cached: this needs direct reads by PyMongo")
            return None
        text = text_indexes(self._domains.collections)
        return CachedAnswers(connection.reader, self._domains.answered_from, most, self._cache_counts, text)

    def routes(self) -> list[BaseRoute]:
        return [
            Route(_PATH, _Graphql(self)),
            WebSocketRoute(_PATH, _Sockets(self)),
            Route(tickets.PATH, tickets.endpoint(lambda: self.state), methods=["POST"]),
            *self._health_checks(),
            *([self._metrics_route()] if self._settings.shows_metrics else []),
            *self._domains.routes(lambda: self.state),
            *explorer.routes(self._settings, self._domains),
            *storefront.routes(self._settings, self._authenticator),
        ]

    def middleware(self) -> Sequence[Middleware]:
        """Returns the middleware of the domains."""
        return self._domains.middleware(self._base, lambda: self.state)

    def admin_app(self) -> Starlette:
        """Returns the application of the address for operators."""
        return Starlette(routes=[*self._health_checks(), self._metrics_route()])

    def _health_checks(self) -> list[BaseRoute]:
        return [Route("/livez", self._live), Route("/readyz", self._ready)]

    def _metrics_route(self) -> BaseRoute:
        return Route("/metrics", self._show_metrics)

    def begin_stop(self) -> None:
        """Makes `/readyz` answer 503. Requests are still served."""
        self._is_stopping = True

    def stop_streams(self) -> None:
        """Ends subscriptions and WebSockets, so that a server that stops need not wait for them."""
        if self._state is not None:
            self._state.live.stop()
            self._state.live_queries.stop()

    @property
    def state(self) -> State:
        assert self._state is not None, "the gateway has not started"
        return self._state

    async def _show_metrics(self, _request: Request) -> Response:
        state = self.state
        return await self._metrics.response(state.database, state.clock.now(), state.resources)

    async def _live(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _request: Request) -> Response:
        if self._is_stopping:
            return JSONResponse({"status": "stopping"}, 503)
        try:
            async with asyncio.timeout(2):
                await self.state.database.command("ping")
        except (PyMongoError, TimeoutError):
            return JSONResponse({"status": "unavailable", "mongodb": "unreachable"}, 503)
        return JSONResponse({"status": "ok"})


async def _close(connection: Connection) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRIVER_SECONDS):
            await connection.close()


class _Graphql:
    """`/graphql`: GraphiQL for a browser that opens it, GraphQL for everything else."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET" and explorer.wants_page(scope):
            await explorer.page(self._gateway.state.settings)(scope, receive, send)
            return
        await self._gateway.operations(scope, receive, send)


class _Sockets:
    """`/graphql` for WebSockets."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gateway.serve(SocketEndpoint(self._gateway.state), scope, receive, send)
