"""What the documentation says is true: the tests run every example, and look up every link, command and name.

How the tests read a page:

* They run a `graphql` block unchanged, as a caller who may do everything, on the demo's shop. They run the blocks of a
  page in order, on a separate database for each page. They run a subscription until it listens.
* They run a `graphql as NAME` block as the caller with this subject, who has no role.
* `json variables` after a block has its variables, with `placeholders` for values that differ between databases.
* `json` after a block is its answer, a second one that to a second run. `"…"` is a text that differs between databases.
* They import `jsonl categories` and so on, with `text` for the output, and run `portico rollup` blocks.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLUnionType,
    OperationDefinitionNode,
    OperationType,
    parse,
    print_ast,
)
from rich.console import Console

from bench.placeholders import resolve_placeholders
from portico.gateway.cli import commands as cli
from portico.gateway.cli import data as cli_data
from portico.gateway.cli import importing
from portico.gateway.demo import demo_token
from portico.gateway.settings import PREFIX, Settings, declared
from portico.resolvers.shop.settings import ShopSettings
from portico.schema.roles import Role
from tests.shop.support.payment_service import running_payment_service
from tests.support.demo import RestoredDemo
from tests.support.domains import DOMAINS, INVARIANTS, SCHEMA
from tests.support.harness import GatewayClient, with_settings
from tests.support.processes import environment, portico
from tests.support.sockets import assert_listens

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SHOP = ROOT / "docs" / "shop.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
ANY = "…"

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$|^(?P<heading>#+ [^\n]*)$", re.MULTILINE | re.DOTALL)
_ASKED = re.compile(r"graphql(?: as (?P<caller>\w+))?")
_FORBIDDEN = [
    r"(?<![\w.])/(home|root|tmp|work|usr|Users|mnt)\b",
    r"(?i)\b(pypi\.org|pythonhosted|npmjs|registry\.|unpkg|jsdelivr|artifactory)",
]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block, or a heading. A heading ends the list of blocks that belong to the example above it."""

    where: str
    info: str
    text: str


@dataclass
class Example:
    """A block that the tests run, with the blocks that belong to it."""

    block: Block
    caller: str | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        where = f"{_name(page)}:{text.count(chr(10), 0, found.start()) + 1}"
        yield Block(where, "heading" if found["heading"] else found["info"], found["text"] or "")


def examples_in(page: Path) -> list[Example]:
    examples: list[Example] = []
    present: Example | None = None
    for block in blocks_of(page):
        if (asked := _ASKED.fullmatch(block.info)) or block.info.startswith("jsonl ") or is_rollup(block):
            present = Example(block, asked["caller"] if asked else None)
            examples.append(present)
        elif block.info == "heading":
            present = None
        elif present is not None and block.info == "json variables":
            present.variables = json.loads(block.text)
        elif present is not None and block.info == ("json" if is_query(present.block) else "text"):
            present.shown.append(block.text)
    return examples


def is_rollup(block: Block) -> bool:
    return (block.info, block.text) == ("sh", "portico rollup\n")


def is_query(block: Block) -> bool:
    return _ASKED.fullmatch(block.info) is not None


def ids(paths: list[Path]) -> list[str]:
    return [_name(path) for path in paths]


@pytest.fixture
async def settings(settings: Settings, restored_demo: RestoredDemo) -> AsyncIterator[Settings]:
    """Settings with the demo's data, and with a test payment provider that answers at once."""
    async with running_payment_service() as service:
        service.is_back = True
        yield with_settings(replace(settings, database=restored_demo.name), ShopSettings, payment_url=service.url)
    restored_demo.restore()


@pytest.fixture
def shop(gateway: GatewayClient) -> GatewayClient:
    """A gateway on the demo's data. Like GraphiQL in the demo, the client may do everything."""
    gateway.roles, gateway.subject = (Role.ADMIN,), demo_token.SUBJECT
    return gateway


def as_shown(answer: Any, shown: Any) -> Any:
    """The answer, with `…` wherever the page shows `…`."""
    if isinstance(answer, dict) and isinstance(shown, dict):
        return {name: as_shown(value, shown.get(name)) for name, value in answer.items()}
    if isinstance(answer, list) and isinstance(shown, list) and len(answer) == len(shown):
        return [as_shown(value, other) for value, other in zip(answer, shown, strict=True)]
    return ANY if shown == ANY and isinstance(answer, str) and answer else answer


def is_mutation(query: str, name: str | None = None) -> bool:
    return is_of_kind(OperationType.MUTATION, query, name)


def is_of_kind(kind: OperationType, query: str, name: str | None = None) -> bool:
    return any(
        node.operation is kind
        for node in parse(query).definitions
        if isinstance(node, OperationDefinitionNode) and (name is None or (node.name and node.name.value == name))
    )


@pytest.mark.parametrize("page", with_examples := [page for page in PAGES if examples_in(page)], ids=ids(with_examples))
async def test_examples_answer_what_the_page_shows(
    shop: GatewayClient, settings: Settings, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in examples_in(page):
        if is_query(example.block):
            await assert_answers(shop, example)
        elif is_rollup(example.block):
            assert portico("rollup", env=environment(settings)).returncode == 0, example.block.where
        else:
            await assert_imports(settings, example)


async def assert_answers(shop: GatewayClient, example: Example) -> None:
    query, where = example.block.text, example.block.where
    variables = await resolve_placeholders(shop, query, example.variables)
    token = shop.token() if example.caller is None else shop.token(example.caller, [])
    if is_of_kind(OperationType.SUBSCRIPTION, query):
        await assert_listens(shop, query, None, variables, token=token)
        return
    assert example.shown or not is_mutation(query), f"{where}: show the answer of the mutation"
    for text in example.shown:
        shown = json.loads(text)
        answer = await shop.ask(query, variables, token=token)
        assert as_shown(answer.body, shown) == shown, where
        if is_mutation(query) and shown["data"] is not None:
            assert all("__typename" in result for result in shown["data"].values() if result), where
    if not example.shown:
        assert "errors" not in (await shop.ask(query, variables, token=token)).body, where


async def assert_imports(settings: Settings, example: Example) -> None:
    subject = example.block.info.removeprefix("jsonl ")
    file = Path(f"{subject}.jsonl")
    write(file, example.block.text)
    assert example.shown, f"{example.block.where}: show the output of the command"
    for shown in example.shown:
        printed = io.StringIO()
        console = Console(file=printed, highlight=False, width=300)
        await cli_data.import_files(settings, subject, [file], console, console)
        assert printed.getvalue().split() == shown.split(), example.block.where


def write(file: Path, text: str) -> None:
    file.write_text(text)


def text_of(page: Path) -> str:
    return page.read_text()


# GraphiQL's tabs

EXAMPLES = sorted(path for domain in DOMAINS.all for _, path in domain.examples)
_VARIABLES = re.compile(r"^# Variables: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Named:
    """An operation in a tab. The client sends the whole text and the name of the operation, as GraphiQL does."""

    tab: str
    name: str
    comment: str

    def variables(self) -> dict[str, Any]:
        written = _VARIABLES.search(self.comment)
        return {} if written is None else dict(json.loads(written[1]))


def named_in(path: Path) -> Iterator[Named]:
    text = path.read_text()
    previous = 0
    for node in parse(text).definitions:
        assert isinstance(node, OperationDefinitionNode)
        assert node.name is not None
        assert node.loc is not None
        yield Named(text, node.name.value, text[previous : node.loc.start])
        previous = node.loc.end


@pytest.mark.parametrize("path", EXAMPLES, ids=ids(EXAMPLES))
async def test_examples_of_graphiql_answer(shop: GatewayClient, path: Path) -> None:
    for operation in named_in(path):
        given = operation.variables()

        variables = await resolve_placeholders(shop, operation.tab, given, operation.name)
        if is_of_kind(OperationType.SUBSCRIPTION, operation.tab, operation.name):
            await assert_listens(shop, operation.tab, operation.name, variables)
            continue
        answer = await shop.data(operation.tab, variables, operation=operation.name)

        assert not any(is_empty(value) for value in answer.values()), operation.name
        if is_mutation(operation.tab, operation.name):
            members = {result["__typename"] for result in answer.values()}
            assert members <= set(re.findall(r"`(\w+)`", operation.comment)), operation.name


def is_empty(value: Any) -> bool:
    """Whether it is null, an empty list, or a page without objects."""
    return value in (None, []) or (isinstance(value, dict) and value.get("nodes") == [])


def test_the_shop_tab_holds_the_operations_of_the_walkthrough_on_the_page() -> None:
    in_tab = {
        operation.name: (printed(operation.tab, operation.name), operation.variables())
        for operation in named_in(dict(example for domain in DOMAINS.all for example in domain.examples)["Shop"])
    }
    on_page = [(example.block.text, example.variables) for example in examples_in(SHOP)]
    walk = text_of(SHOP).partition("\n## Stock\n")[0].count("```graphql\n")

    shown = {name: (printed(text), given) for text, given in on_page if (name := name_in(text))}

    assert [name for name in shown if name in in_tab] == list(in_tab)
    assert list(in_tab)[:walk] == [name_in(text) for text, _ in on_page][:walk]
    assert {name: shown[name] for name in in_tab} == in_tab


def name_in(text: str) -> str | None:
    """The name of the operation in a block."""
    (node,) = parse(text).definitions
    assert isinstance(node, OperationDefinitionNode)
    return None if node.name is None else node.name.value


def printed(text: str, name: str | None = None) -> str:
    """The operation with this name, or the only one, without its layout."""
    nodes = [node for node in parse(text).definitions if isinstance(node, OperationDefinitionNode)]
    (found,) = [node for node in nodes if name is None or (node.name and node.name.value == name)]
    return print_ast(found)


def test_the_page_shows_the_checks_that_doctor_runs() -> None:
    shown = [line for block in blocks_of(SHOP) if block.info == "text" for line in block.text.splitlines()]
    ok = [line.removeprefix("ok   ") for line in shown if line.startswith("ok ")]

    assert ok
    assert [invariant.name for invariant in INVARIANTS if invariant.name in ok] == ok


@pytest.mark.parametrize(
    ("page", "count", "said"),
    [(README, 4, "It takes four commands"), (ROOT / "docs" / "architecture.md", 2, "It takes two commands")],
)
async def test_the_first_example_sends_as_many_commands_as_the_page_says(
    shop: GatewayClient, page: Path, count: int, said: str
) -> None:
    query = next(block.text for block in blocks_of(page) if block.info == "graphql")

    # The first job run ended long before the shop was loaded.
    shop.commands.clear()
    await shop.data(query)

    assert len(shop.commands.sent) == count, shop.commands.names()
    assert said in text_of(page)


# Names


@pytest.mark.parametrize("page", TEXTS, ids=ids(TEXTS))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^()\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_relative_to(ROOT), target
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, in the form that code forges use."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def code_in(page: Path) -> Iterator[str]:
    """The lines of shell blocks, and the text between backticks in the prose."""
    for block in blocks_of(page):
        if block.info in {"sh", "shell"}:
            yield from block.text.splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", TEXTS, ids=ids(TEXTS))
def test_commands_exist(page: Path) -> None:
    group = typer.main.get_command(cli.app)
    assert isinstance(group, typer.core.TyperGroup)
    for code in code_in(page):
        for name, rest in re.findall(r"(?:^|[\s/])portico ([a-z][a-z-]*)\b([^|;&>#]*)", code):
            is_import = name == "import" and bool(rest.split())
            command = importing.command(rest.split()[0]) if is_import else group.get_command(typer.Context(group), name)
            assert command is not None, code
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            needed = {one.opts[0] for one in command.params if one.required and one.param_type_name == "option"}
            given = set(re.findall(r"--[a-z-]+", rest))
            assert (given and needed) <= given <= known, code


@pytest.mark.parametrize("page", TEXTS, ids=ids(TEXTS))
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for code in code_in(page):
        assert set(re.findall(r"(?:^|\s)make ([a-z]+)", code)) <= targets, code


@pytest.mark.parametrize("page", TEXTS, ids=ids(TEXTS))
def test_settings_exist(page: Path) -> None:
    kinds = (Settings, *(domain.settings for domain in DOMAINS.all if domain.settings is not None))
    known = {variable for kind in kinds for variable, _ in declared(kind)}
    assert set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", page.read_text())) <= known


@pytest.mark.parametrize("page", [*TEXTS, *EXAMPLES], ids=ids([*TEXTS, *EXAMPLES]))
def test_no_page_names_a_path_or_a_registry(page: Path) -> None:
    for pattern in _FORBIDDEN:
        assert re.findall(pattern, page.read_text()) == [], pattern


def test_every_filter_sort_and_failure_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    types = SCHEMA._schema.type_map
    names: set[str] = set()
    for found in types.values():
        if isinstance(found, GraphQLUnionType):
            names |= {member.name for member in found.types}
        if isinstance(found, GraphQLInputObjectType) and found.name.endswith("Filter"):
            names |= set(found.fields)
        if isinstance(found, GraphQLEnumType) and found.name.endswith("Sort"):
            names |= set(found.values)

    missing = sorted(name for name in names if f"`{name}`" not in text)

    assert missing == []
