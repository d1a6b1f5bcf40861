"""The page for operators lists every event that the gateway logs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from portico.gateway.outages import EVENTS
from tests.support.rooms import ROOT, modules_below

PAGE = (ROOT / "docs" / "operations.md").read_text()
MODULES = [path for room in ("resolvers", "loaders", "schema", "gateway") for path in modules_below(ROOT / room)]
# What modules call the object that logs.
LOGGERS = {"logger()", "_log", "log", "self._log"}
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log", "add"}
# They log an event that others name.
PASSING_ON = {
    "gateway/bounded_log.py",
    "gateway/domains/shop/payments/provider.py",
    "gateway/logs.py",
    "gateway/outages.py",
}


def logged_in(path: Path) -> Iterator[str]:
    """The events that a module logs; one that it is given is empty. Values within a text are `…`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, event = node.func, node.args[0]
        is_method = isinstance(called, ast.Attribute) and called.attr in METHODS
        if (isinstance(called, ast.Attribute) and is_method and ast.unparse(called.value) in LOGGERS) or (
            isinstance(called, ast.Name) and called.id == "log_fault"
        ):
            is_text = isinstance(event, ast.Constant) and isinstance(event.value, str)
            yield re.sub("%[sd]", "…", str(event.value)) if is_text and isinstance(event, ast.Constant) else ""


def is_passed_on(event: str) -> bool:
    return any(f'"{event}"' in (ROOT / module).read_text() for module in PASSING_ON)


def test_the_page_lists_every_event_of_the_log() -> None:
    section = PAGE.partition("\n## Logs\n")[2].partition("\n## ")[0]
    listed = [
        name for cell in re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE) for name in cell[1:-1].split("`, `")
    ]
    logged = {event for path in MODULES for event in logged_in(path)} - {""}

    assert len(logged) > 30
    assert sorted(event for event in listed if not is_passed_on(event)) == sorted(logged)


def test_few_modules_log_an_event_that_they_are_given() -> None:
    passing_on = {str(path.relative_to(ROOT)) for path in MODULES if "" in logged_in(path)}

    assert passing_on == PASSING_ON
    assert [event for event in EVENTS.values() if f"`{event}`" not in PAGE] == []
