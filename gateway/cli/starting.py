"""How a server starts: if it cannot, its process raises the error of the gateway."""

from __future__ import annotations

import logging
import sys
from typing import Any

from uvicorn import Config
from uvicorn.lifespan.on import LifespanOn


def silent_logger() -> logging.Logger:
    silent = logging.getLogger(f"{__name__}.silent")
    silent.disabled = True
    return silent


class Lifespan(LifespanOn):
    """Starts and stops the gateway for uvicorn. If the start fails, `startup` raises the error.

    uvicorn would log the traceback, and exit with a status of its own.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._failure: BaseException | None = None

    async def startup(self) -> None:
        logger, self.logger = self.logger, silent_logger()
        await super().startup()
        if self._failure is not None:
            raise self._failure
        self.logger = logger

    async def send(self, message: Any) -> None:
        if message["type"] == "lifespan.startup.failed":
            # Starlette sends the message while it handles the error.
            self._failure = sys.exc_info()[1]
        await super().send(message)
