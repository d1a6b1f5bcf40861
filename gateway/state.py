"""What a running gateway has."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.documents import Database
from resolvers.payments import Payments
from resolvers.uploads import UploadRules

from .auth import Authenticator
from .clock import Clock
from .execution import Executor
from .settings import Settings


@dataclass
class State:
    """One a process. `database` and `reading` are there once the gateway has started."""

    settings: Settings
    clock: Clock
    authenticator: Authenticator
    executor: Executor
    database: Database
    reading: Database
    payments: Payments
    uploads: UploadRules
