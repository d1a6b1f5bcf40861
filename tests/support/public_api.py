"""The names of the public API."""

from __future__ import annotations

import portico
from portico import accounts, imports, jobs, schema, store, writes

GROUPS = (portico, store, schema, writes, jobs, imports, accounts)
PUBLIC = {name: getattr(group, name) for group in GROUPS for name in group.__all__}
