"""Loads what forked commands start with: the modules of every command, and the schema of all built-in domains."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import sys

# The value of `processes.environment`. Modules read it when they are imported.
os.environ["COLUMNS"] = "300"

from portico.gateway.app import create_app
from portico.gateway.cli import commands, server
from portico.gateway.domains import load, schema_of
from portico.schema.markdown import page_html
from tests.support import forks

LOADED = (commands, create_app, server, forks)
# What a command loads when it prints a progress bar, or when it serves.
LATE = (
    "rich._emoji_codes",
    "starlette_compress._brotli",
    "starlette_compress._gzip",
    "starlette_compress._zstd_legacy",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
)
schema_of(load())
# Loads the parser.
page_html("")
for late in LATE:
    importlib.import_module(late)
# Loads what reads the options of a command, which takes longer than most commands.
with contextlib.redirect_stdout(io.StringIO()):
    commands.app(["serve", "--help"], standalone_mode=False)
for name, module in list(sys.modules.items()):
    if name.startswith("portico."):
        # Loads a lazy module.
        vars(module)
gc.freeze()
