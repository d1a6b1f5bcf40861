"""Portico: a GraphQL API gateway over MongoDB.

The public API for domains of other packages is what `docs/extending.md` describes: the names of this package, and of
its modules `store`, `schema`, `writes`, `jobs`, `imports` and `accounts`. Everything else is private. `portico.testing`
is the public API for their tests.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._facade import *  # noqa: F403 - `__all__` lists the names, there and here
    from ._facade import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Imports the API when one of its names is first used, because the command line does not need it for its help."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    facade = importlib.import_module("portico._facade")
    if name != "__all__" and name not in facade.__all__:
        return _of_last_version(name)
    value = getattr(facade, name)
    globals()[name] = value
    return value


def _of_last_version(name: str) -> Any:
    """Returns what a name of the last minor version stands for, with a warning. Raises AttributeError for others."""
    names = importlib.import_module("portico._deprecated")
    place = names.MOVED.get(name)
    advice = f"use `{place}`" if place else names.ADVICE.get(name, "it has no successor")
    place = place or names.GONE.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"`portico.{name}` is deprecated and goes with the next minor version: {advice}.",
        DeprecationWarning,
        stacklevel=3,
    )
    return pkgutil.resolve_name(place)


def __dir__() -> list[str]:
    return [*globals(), *importlib.import_module("portico._facade").__all__]
