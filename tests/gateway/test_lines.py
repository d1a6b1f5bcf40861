"""Lines in a terminal are coloured, unless the environment asks for none."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping

import pytest

from portico.gateway.cli import lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "is_colored"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_lines_are_coloured_unless_the_environment_asks_for_none(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, *, is_colored: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", shown := Terminal())
    monkeypatch.setattr(sys, "stderr", warned := Terminal())

    lines.warn("the port is taken")
    lines.show("Portico is at http://localhost.", bold="http://localhost")

    assert ("\x1b[33m" in warned.getvalue(), "\x1b[1m" in shown.getvalue()) == (is_colored, is_colored)
    if not is_colored:
        assert warned.getvalue() == "portico: the port is taken\n"
        assert shown.getvalue() == "Portico is at http://localhost.\n"
