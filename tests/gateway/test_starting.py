"""What a process loads when it starts."""

from __future__ import annotations

import subprocess
import sys

# Parts that few processes need, and few requests. Each takes one to four hundredths of a start.
LATE = ("PIL", "brotli", "httpx", "markdown_it", "pygments", "rich")
START = f"""
import sys
import portico.gateway.cli.server
from portico.gateway.domains import load, schema_of
schema_of(load(None))
print(*(name for name in {LATE!r} if name in sys.modules))
"""


def test_a_process_loads_what_few_requests_need_when_they_do() -> None:
    ended = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == []
