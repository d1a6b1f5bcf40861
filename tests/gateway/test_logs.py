"""All lines of the log have one format, also those of modules that log with the standard library."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import logging
from portico.gateway.logs import configure, logger
from portico.gateway.settings import Settings
configure(Settings(log_format="json", log_level="warning"))
logger().warning("one")
logging.getLogger("portico.notifications").warning("two %d", 2)
logging.getLogger("portico.notifications").info("three")
"""


def test_what_the_standard_library_logs_has_the_same_format() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [("warning", "one"), ("warning", "two 2")]
