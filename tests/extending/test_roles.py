"""A domain of a package declares roles of its own: in tokens, in rules, in the schema and on the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import jwt
import pytest
import strawberry
from typer.testing import CliRunner

import portico
from portico import Domain, Role, schema
from portico.gateway.auth import UnknownRole, roles_named
from portico.gateway.cli.commands import app
from portico.gateway.domains import load, schema_of
from portico.gateway.settings import Settings
from portico.resolvers.served import InvalidDomains
from portico.schema.context import Caller, Info
from portico.schema.watching import WatchedCaller, agrees
from tests.support.harness import GatewayClient, running
from tests.support.library import served

LIBRARIAN = portico.OwnRole("LIBRARIAN", "The books and their readers.")
OTHER = portico.OwnRole("ARCHIVIST", "Old books.")


@strawberry.type(description="What was lent.")
class LentPayload:
    book: str = strawberry.field(description="Its title.")


@strawberry.input(description="What to lend.")
class LendInput:
    book: str = strawberry.field(description="Its title.")
    idempotency_key: str | None = schema.idempotency_key()


@strawberry.type
class LendingMutation:
    @schema.mutation(role=LIBRARIAN, description="Lends a book.")  # type: ignore[untyped-decorator]
    async def lend(self, input: LendInput) -> LentPayload | None:  # noqa: A002 - the name that clients see
        return LentPayload(book=input.book)


@strawberry.type
class LendingQuery:
    @strawberry.field(description="Whether the caller may lend.")  # type: ignore[untyped-decorator]
    async def may_lend(self, info: Info) -> bool:
        return info.context.has_role(LIBRARIAN)

    @strawberry.field(description="The claims of the caller.")  # type: ignore[untyped-decorator]
    async def claims(self, info: Info) -> list[str]:
        caller = schema.require_caller(info.context)
        return [repr(caller.claim(name)) for name in ("branch", "shelves", "exp", "none")]


DOMAIN = Domain(
    name="lending", about="Books.", roles=(LIBRARIAN, OTHER), mutations=(LendingMutation,), queries=(LendingQuery,)
)
LEND = 'mutation { lend(input: {book: "Emma"}) { book } }'


@pytest.fixture
async def lending(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayClient]:
    with served(monkeypatch, "lending", __name__):
        async with running(replace(settings, domains="lending")) as gateway:
            yield gateway


@pytest.mark.parametrize(
    ("roles", "may_lend"), [((LIBRARIAN,), True), ((Role.ADMIN,), True), ((OTHER, Role.MERCHANT), False), ((), False)]
)
async def test_a_mutation_and_a_rule_require_the_role_of_the_token(
    lending: GatewayClient, roles: tuple[portico.Role | portico.OwnRole, ...], may_lend: bool
) -> None:
    caller = lending.as_caller("ann", *roles)

    lent = await caller.ask(LEND)

    assert (await caller.data("{ mayLend }"))["mayLend"] is may_lend
    assert lent.body["data"] == {"lend": {"book": "Emma"} if may_lend else None}
    assert lent.codes == ([] if may_lend else ["FORBIDDEN"])


async def test_a_domain_reads_claims_of_its_own(lending: GatewayClient) -> None:
    caller = lending.as_caller("ann", branch="north", shelves=[1, {"b": 2**70}])

    assert (await caller.data("{ claims }"))["claims"] == ["'north'", f"[1, {{'b': {2**70}}}]", "None", "None"]


async def test_the_schema_shows_the_roles_of_the_domains_after_those_of_portico(lending: GatewayClient) -> None:
    caller = lending.as_caller("ann", LIBRARIAN, Role.EDITOR, OTHER)

    data = await caller.data('{ viewer { roles } __type(name: "Role") { enumValues { name description } } }')

    assert data["viewer"]["roles"] == ["EDITOR", "ARCHIVIST", "LIBRARIAN"]
    shown = {value["name"]: value["description"] for value in data["__type"]["enumValues"]}
    assert list(shown) == [*(role.name for role in Role), "LIBRARIAN", "ARCHIVIST"]
    assert shown["LIBRARIAN"] == "The books and their readers."


def test_other_gateways_of_the_process_do_not_have_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch, "lending", __name__):
        own, built_in = schema_of(load(["lending"])), schema_of(load(["catalog"]))

    assert "LIBRARIAN" in own.as_str()
    assert "LIBRARIAN" not in built_in.as_str()


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ((LIBRARIAN, LIBRARIAN), "declares the role LIBRARIAN twice"),
        ((LIBRARIAN, portico.OwnRole("EDITOR", "Texts.")), "declares the role EDITOR, which the gateway already"),
        ((OTHER,), "declares the mutation lend for the role LIBRARIAN, which no served domain declares"),
    ],
)
def test_a_role_that_is_taken_or_not_declared_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, roles: tuple[portico.OwnRole, ...], message: str
) -> None:
    monkeypatch.setattr(f"{__name__}.DOMAIN", replace(DOMAIN, roles=roles))

    with served(monkeypatch, "lending", __name__), pytest.raises(InvalidDomains, match=message):
        schema_of(load(["lending"]))


@pytest.mark.parametrize("name", ["librarian", "", "A-B", "1A", "É"])
def test_the_name_of_a_role_is_a_constant(name: str) -> None:
    with pytest.raises(ValueError, match="capital letters"):
        portico.OwnRole(name, "Books.")


def test_the_command_line_issues_tokens_with_the_role(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_DOMAINS", "lending")
    monkeypatch.setenv("PORTICO_DATA_DIR", str(settings.data_dir))
    with served(monkeypatch, "lending", __name__):
        issued = CliRunner().invoke(
            app, ["token", "--sub", "ann", "--role", "librarian", "--role", "EDITOR", "--claim", "a=b=c"]
        )
        no_claim = CliRunner().invoke(app, ["token", "--sub", "ann", "--claim", "a"])
        unknown = CliRunner().invoke(app, ["token", "--sub", "ann", "--role", "EMPEROR"])

    claims = jwt.decode(issued.stdout.strip(), options={"verify_signature": False})
    assert claims["roles"] == ["LIBRARIAN", "EDITOR"]
    assert claims["a"] == "b=c"
    assert (unknown.exit_code, no_claim.exit_code) == (2, 2)


def test_roles_of_portico_are_named_without_loading_the_domains() -> None:
    def load_none() -> tuple[portico.OwnRole, ...]:
        raise AssertionError("loaded")

    assert roles_named(["merchant"], load_none) == [Role.MERCHANT]
    with pytest.raises(UnknownRole, match=r"'emperor' is not one of 'ADMIN', .* 'LIBRARIAN'"):
        roles_named(["emperor"], lambda: [LIBRARIAN])


def test_what_an_answer_depends_on_includes_the_role() -> None:
    caller = WatchedCaller.of(Caller("ann", frozenset({LIBRARIAN})))

    assert caller.has(LIBRARIAN)
    assert caller.facts == {LIBRARIAN: True}
    assert not agrees(Caller("ben", frozenset()), caller.facts)
    assert agrees(Caller("ben", frozenset({LIBRARIAN})), caller.facts)


async def test_a_slot_has_one_value_for_each_operation(lending: GatewayClient) -> None:
    slot: schema.Slot[list[str]] = schema.Slot(list)
    first, second = [lending.state.context(None, "a request") for _ in range(2)]

    slot.of(first).append("a")

    assert (slot.of(first), slot.of(second)) == (["a"], [])
