"""Imports modules on first use, so that a command imports only what it needs."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


def import_lazily(name: str) -> Any:
    """Returns the gateway's module of this name. Type checkers also need a regular import of it."""
    whole = f"portico.gateway.{name}"
    if whole in sys.modules:
        return sys.modules[whole]
    spec = importlib.util.find_spec(whole)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"There is no module {whole}.", name=whole)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[whole] = module
    # A regular import also makes the module an attribute of its package.
    package, _, own_name = whole.rpartition(".")
    setattr(sys.modules[package], own_name, module)
    spec.loader.exec_module(module)
    return module
