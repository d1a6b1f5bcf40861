"""The entry point of the program `portico`. It imports little, so that it soon decides what Ctrl-C does."""

from __future__ import annotations

import signal
import sys

# What a shell reports for a program that SIGINT has ended.
_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Runs a command. While Python loads and ends, Ctrl-C ends the process at once. Otherwise, see `loops.run`.

    An exception that came in the middle of an import would show a traceback, or leave half of a module.
    """
    # A shell can start a program with SIGINT ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .commands import main as run  # noqa: PLC0415 - this takes most of the time of a short command

    try:
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
