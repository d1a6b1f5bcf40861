"""What forked commands begin with: the modules of every command, and the schema of all built-in domains."""

from __future__ import annotations

import gc
import os
import sys

# As `processes.environment` has it; some of it is read when a module is imported.
os.environ["COLUMNS"] = "300"

from portico.gateway.app import create_app
from portico.gateway.cli import commands, server
from portico.gateway.domains import load, schema_of

LOADED = (commands, create_app, server)
schema_of(load())
for name, module in list(sys.modules.items()):
    if name.startswith("portico."):
        # Modules that are imported when they are first used.
        vars(module)
gc.freeze()
