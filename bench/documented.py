"""The operations that the documentation shows, with their variables and callers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bench.peerlist import ROOT
from bench.placeholders import resolve_placeholders
from portico.gateway.demo import demo_token
from portico.schema.roles import Role
from portico.testing.gateways import Gateway

AnyGateway = TypeVar("AnyGateway", bound=Gateway)
_BLOCK = re.compile(
    r"^```graphql(?: as (?P<caller>\w+))?\n(?P<text>.*?)^```$(?:\n+^```json variables\n(?P<variables>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
# Equal ads come in random order.
_RANDOM = "chooseAds"


@dataclass
class Asked:
    """A documented operation, with its caller; None for the one who may do everything."""

    text: str
    caller: str | None
    variables: dict[str, Any]
    where: str

    @property
    def live(self) -> str:
        """The query with the directive."""
        depth = 0
        for place, letter in enumerate(self.text):
            depth += (letter == "(") - (letter == ")")
            if letter == "{" and not depth:
                return f"{self.text[:place] or 'query '}@live {self.text[place:]}"
        raise AssertionError(self.text)


def documented() -> Iterator[Asked]:
    """Yields the operations of all pages."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text()
        for block in _BLOCK.finditer(text):
            where = f"{page.name}:{text.count(chr(10), 0, block.start()) + 1}"
            variables = json.loads(block["variables"] or "{}")
            yield Asked(block["text"].lstrip(), block["caller"], variables, where)


async def as_documented(gateway: AnyGateway) -> AnyGateway:
    """Calls the documented mutations on the demo's data. Returns the gateway with the caller of the demo."""
    demo = replace(gateway, roles=(Role.ADMIN,), subject=demo_token.SUBJECT)
    for asked in documented():
        if asked.text.startswith("mutation"):
            with contextlib.suppress(AssertionError, LookupError, TypeError):
                variables = await resolve_placeholders(demo, asked.text, asked.variables)
                await as_asked(demo, asked).ask(asked.text, variables)
    return demo


def as_asked(demo: AnyGateway, asked: Asked) -> AnyGateway:
    return demo if asked.caller is None else demo.as_caller(asked.caller)


async def documented_queries(demo: Gateway) -> list[Asked]:
    """Returns the queries whose answers do not depend on chance, with the ids of this database."""
    found = []
    for asked in documented():
        if asked.text.startswith(("query", "{")) and _RANDOM not in asked.text and "@live" not in asked.text:
            with contextlib.suppress(AssertionError, LookupError, TypeError):
                asked.variables = await resolve_placeholders(demo, asked.text, asked.variables)
                found.append(asked)
    return found
