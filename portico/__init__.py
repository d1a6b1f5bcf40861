"""Portico: a GraphQL API gateway over MongoDB.

`portico` is the public API for domains of other packages: the names in `__all__`, which `docs/extending.md` describes.
Everything else is private. `portico.testing` is the public API for their tests.
"""

from __future__ import annotations

import importlib
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
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(facade, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *importlib.import_module("portico._facade").__all__]
