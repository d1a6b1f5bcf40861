"""Modules that are imported when something of them is first used, so that a command imports what it needs."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any


def lazy(name: str) -> Any:
    """The module of this name in the gateway. Type checkers need its import beside this call."""
    whole = f"portico.gateway.{name}"
    if whole in sys.modules:
        return sys.modules[whole]
    spec = importlib.util.find_spec(whole)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"There is no module {whole}.", name=whole)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[whole] = module
    # As an import does it: a package knows its modules by their names.
    package, _, own_name = whole.rpartition(".")
    setattr(sys.modules[package], own_name, module)
    spec.loader.exec_module(module)
    return module
