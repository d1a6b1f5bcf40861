"""The parts of a running gateway that its requests use."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from portico.gateway.caller_rates import Rates
from portico.gateway.operations.execution import Executor
from portico.loaders.batching import Loaders
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Database
from portico.resolvers.served import Served
from portico.resolvers.writes.idempotency import Process
from portico.schema.context import Caller, Context, derived

from .answers import Answers
from .auth import Authenticator
from .bodies import Bodies
from .bounded_log import BoundedLog
from .cache.kept_answers import CachedAnswers
from .clock import Clock
from .live import Hub
from .live_queries import LiveQueries
from .processes import this_process
from .settings import Settings
from .starts import Starts
from .telemetry.recording import Telemetry


@dataclass
class State:
    """The state of a started gateway. `reading` is the database for reads of anonymous callers. `cache` has answers."""

    settings: Settings
    clock: Clock
    authenticator: Authenticator
    executor: Executor
    database: Database
    reading: Database
    served: Served
    live: Hub
    live_queries: LiveQueries
    rates: Rates
    cache: CachedAnswers | None = None
    process: Process = field(default_factory=this_process)
    telemetry: Telemetry = field(default_factory=Telemetry)
    refusals: BoundedLog = field(default_factory=BoundedLog)
    answers: Answers = field(init=False)
    starts: Starts = field(init=False)
    bodies: Bodies = field(init=False)
    upload_bodies: Bodies = field(init=False)

    def __post_init__(self) -> None:
        self.answers = Answers(self.live.counts)
        self.starts = Starts(self.database)
        self.bodies = Bodies(self.executor.memory)
        # An upload keeps its room while its files arrive.
        self.upload_bodies = Bodies(self.executor.memory, 4_000_000, 2_000_000)

    @property
    def resources(self) -> Resources:
        """The settings of the gateway and its domains, and what their services have opened, by type."""
        return self.served.resources

    @cached_property
    def _idle(self) -> Context:
        """A context with everything that all operations share."""
        return Context(
            db=self.database,
            reading=self.reading,
            caller=None,
            started=self.clock.now(),
            clock=self.clock.now,
            request_id="",
            selections={},
            served=self.served,
            live=self.live,
            keys_kept=timedelta(hours=self.settings.key_hours),
            process=self.process,
            is_read_only=self.settings.read_only,
        )

    def context(self, caller: Caller | None, request_id: str, connection: Hashable = None) -> Context:
        """Returns the context in which an operation starts, of this caller and on this connection."""
        return derived(
            self._idle,
            db=self.database,
            reading=self.reading if caller is None else self.database,
            caller=caller,
            started=self.clock.now(),
            clock=self.clock.now,
            request_id=request_id,
            connection=connection,
            loaders=Loaders(),
            seen=set(),
            listed=[],
            slots={},
        )
