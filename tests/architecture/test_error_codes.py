"""Every code of an error is declared once, by the gateway or a domain, and documented as it is declared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from portico.gateway.app import create_app
from portico.gateway.domains import OWN_PATHS
from portico.gateway.error_codes import ERROR_CODES
from portico.gateway.operations.responses import FAULTS
from portico.gateway.settings import Settings
from portico.resolvers.errors import InvalidInput
from tests.support.domains import DOMAINS
from tests.support.rooms import ROOT, modules_below

DECLARED = {**ERROR_CODES, **{code: cause for domain in DOMAINS.all for code, cause in domain.error_codes.items()}}
MODULES = [path for room in ("resolvers", "schema", "gateway") for path in modules_below(ROOT / room)]
VALUE_CODES = {value for name, value in vars(InvalidInput).items() if isinstance(value, str) and name == value}
CODE = re.compile(r"[A-Z]+(_[A-Z]+)*")


def codes_in(path: Path) -> Iterator[str]:
    """The texts at the key `code`, those that an HTTP request is refused with, and the codes of classes of errors."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            given = [value for key, value in zip(node.keys, node.values, strict=True) if _text_of(key) == "code"]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused":
            given = [argument for argument in node.args if CODE.fullmatch(_text_of(argument))]
        elif isinstance(node, ast.Assign) and [
            target.id for target in node.targets if isinstance(target, ast.Name)
        ] == ["code"]:
            given = [node.value]
        else:
            continue
        yield from (text for value in given if (text := _text_of(value)))


def _text_of(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_every_code_that_the_gateway_answers_with_is_declared() -> None:
    used = {code for path in MODULES for code in codes_in(path)}

    assert len(used) > 15
    assert used | set(FAULTS) <= set(DECLARED)


def test_every_declared_code_is_one_that_the_gateway_answers_with() -> None:
    texts = [path.read_text() for path in MODULES if path.name != "error_codes.py"]

    assert [code for code in ERROR_CODES if not any(f'"{code}"' in text for text in texts)] == []


def test_the_page_lists_every_code_with_its_cause() -> None:
    page, _, of_values = (ROOT / "docs" / "errors.md").read_text().partition("## Errors as data")
    row = re.compile(r"^\| `([A-Z_]+)` \| (.*) \|$", re.MULTILINE)

    assert dict(row.findall(page)) == DECLARED
    assert {code for code, _ in row.findall(of_values)} == VALUE_CODES


def test_no_domain_can_take_a_path_of_the_gateway() -> None:
    of_domains = [route.path for domain in DOMAINS.all if domain.routes for route in domain.routes(lambda: None)]
    served = [str(getattr(route, "path", "")) for route in create_app(Settings()).routes]
    paths = [path for path in served if path not in of_domains]

    assert {f"/{path.split('/')[1]}" for path in paths} == set(OWN_PATHS)
