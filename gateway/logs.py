"""Structured logs: readable text for a terminal, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
from typing import Any

# structlog would load 70 modules of rich for tracebacks in color, which no log of the gateway has.
_RICH = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]

try:
    import structlog
finally:
    if _RICH is None:
        del sys.modules["rich"]

from .settings import Settings  # noqa: E402

# What the HTTP server and the parser of uploads say of clients that send something invalid. Any client could fill the
# log with it.
_SERVER, _UPLOADS = "uvicorn.error", "python_multipart"
_ABOUT_CLIENTS = {
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "Invalid UTF-8 sequence received from client.",
}


def _is_own(record: logging.LogRecord) -> bool:
    return record.msg not in _ABOUT_CLIENTS


def configure(settings: Settings) -> None:
    """Sets the format and level of the logs. They go to standard error; standard output is for results."""
    logging.getLogger(_SERVER).addFilter(_is_own)
    logging.getLogger(_UPLOADS).setLevel(logging.CRITICAL)
    level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    standard = logging.getLogger("portico")
    standard.setLevel(level)
    standard.handlers = [_Forwarding()]


class _Forwarding(logging.Handler):
    """Logs in the same format what modules of the other rooms log with the standard library."""

    def emit(self, record: logging.LogRecord) -> None:
        logger().log(record.levelno, record.getMessage())


def logger() -> Any:
    return structlog.get_logger("portico")
