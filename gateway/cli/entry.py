"""The entry point of the program `portico`. It imports little, so that it soon decides what Ctrl-C does."""

from __future__ import annotations

import signal
import sys

# What a shell reports for a program that SIGINT has ended.
_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Runs a command. Ctrl-C ends it without a traceback, also while Python loads it, and when it has ended."""
    # A shell can start a program with SIGINT ignored.
    is_handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .commands import main as run  # noqa: PLC0415 - this takes most of the time of a short command

    if is_handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        if is_handled:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
