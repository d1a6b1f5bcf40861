"""The parts of a running gateway that its requests use."""

from __future__ import annotations

from dataclasses import dataclass, field

from portico.gateway.operations.execution import Executor
from portico.resolvers.documents import Database
from portico.resolvers.domains import Resources
from portico.schema.context import Caller, Context

from .answers import Answers
from .auth import Authenticator
from .clock import Clock
from .live import Hub
from .settings import Settings


@dataclass
class State:
    """The state of a started gateway, one per process. `reading` is the database for reads of anonymous callers."""

    settings: Settings
    clock: Clock
    authenticator: Authenticator
    executor: Executor
    database: Database
    reading: Database
    resources: Resources
    live: Hub
    answers: Answers = field(init=False)

    def __post_init__(self) -> None:
        self.answers = Answers(self.live.counts)

    def context(self, caller: Caller | None, request_id: str) -> Context:
        """Returns the context that the fields of one operation of this caller share."""
        return Context(
            db=self.database,
            reading=self.reading if caller is None else self.database,
            caller=caller,
            now=self.clock.now(),
            clock=self.clock.now,
            request_id=request_id,
            selections={},
            resources=self.resources,
            live=self.live,
        )
