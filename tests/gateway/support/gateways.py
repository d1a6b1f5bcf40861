"""Gateways in processes of their own, of which one can be killed."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from portico.gateway.settings import Settings
from tests.support.processes import Served, environment, served


class Gateways:
    """Two gateways in processes of their own. One can be killed, and started again."""

    def __init__(self, settings: Settings, folder: Path, stack: contextlib.ExitStack) -> None:
        self._settings = settings
        self._folder = folder
        self._stack = stack
        self._starts = 0
        self._turn = 0
        self.serving: list[Served] = []

    def start(self) -> None:
        self._starts += 1
        folder = self._folder / f"gateway-{self._starts}"
        env = environment(replace(self._settings, data_dir=folder))
        self.serving.append(self._stack.enter_context(served(folder, env)))

    def kill_one(self) -> None:
        self.serving.pop(0).process.kill()

    def next(self) -> Served:
        self._turn += 1
        return self.serving[self._turn % len(self.serving)]
