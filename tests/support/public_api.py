"""The names of the public API."""

from __future__ import annotations

from types import ModuleType

import portico
from portico import accounts, imports, jobs, schema, store, writes

GROUPS = (portico, store, schema, writes, jobs, imports, accounts)
PUBLIC = {name: getattr(group, name) for group in GROUPS for name in group.__all__}
# Public names that are modules: families of functions of one form.
FAMILIES = [value for value in PUBLIC.values() if isinstance(value, ModuleType)]


def is_public(name: str, value: object) -> bool:
    """Whether packages can import this value by this name."""
    if PUBLIC.get(name) is value:
        return True
    return any(name in family.__all__ and getattr(family, name) is value for family in FAMILIES)
