"""Loads what forked commands start with: the modules of every command, and the schema of all built-in domains."""

from __future__ import annotations

import gc
import os
import sys

# The value of `processes.environment`. Modules read it when they are imported.
os.environ["COLUMNS"] = "300"

from portico.gateway.app import create_app
from portico.gateway.cli import commands, server
from portico.gateway.domains import load, schema_of
from portico.schema.markdown import page_html

LOADED = (commands, create_app, server)
schema_of(load())
# Loads the parser.
page_html("")
for name, module in list(sys.modules.items()):
    if name.startswith("portico."):
        # Loads a lazy module.
        vars(module)
gc.freeze()
