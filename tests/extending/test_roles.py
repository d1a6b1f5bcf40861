"""A domain of a package declares roles of its own: in tokens, in rules, in the schema and on the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import jwt
import pytest
import strawberry
from typer.testing import CliRunner

from portico import Caller, Domain, Role, schema
from portico.gateway.auth import UnknownRole, roles_named
from portico.gateway.cli.commands import app
from portico.gateway.domains import load, schema_of
from portico.gateway.logs import configure
from portico.gateway.settings import Settings
from portico.resolvers.served import Domains, InvalidDomains
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.context import Info
from portico.schema.roles import OWN_ROLES
from portico.schema.watching import WatchedCaller, agrees
from tests.support.harness import GatewayClient, running
from tests.support.library import served, serving

LIBRARIAN = Role("LIBRARIAN", "The books and their readers.")
OTHER = Role("ARCHIVIST", "Old books.")
BRANCH, SHELVES, RATE, GUEST = (
    Caller.Claim("branch", str),
    Caller.Claim("shelves", list),
    Caller.Claim("rate", float),
    Caller.Claim("guest", bool),
)
CLAIMS: tuple[Caller.Claim[Any], ...] = (BRANCH, SHELVES, RATE, GUEST)


@strawberry.type(description="What was lent.")
class LentPayload:
    book: str = strawberry.field(description="Its title.")


@strawberry.input(description="What to lend.")
class LendInput:
    book: str = strawberry.field(description="Its title.")
    idempotency_key: str | None = schema.idempotency_key()


@strawberry.type
class LendingMutation:
    @schema.mutation(role=LIBRARIAN, description="Lends a book.")
    async def lend(self, input: LendInput) -> LentPayload | None:  # noqa: A002 - the name that clients see
        return LentPayload(book=input.book)


@strawberry.type
class LendingQuery:
    @strawberry.field(description="Whether the caller may lend.")  # type: ignore[untyped-decorator]
    async def may_lend(self, info: Info) -> bool:
        return info.context.has_role(LIBRARIAN)

    @strawberry.field(description="The claims of the caller.")  # type: ignore[untyped-decorator]
    async def claims(self, info: Info) -> list[str]:
        caller = info.context.require_caller()
        return [repr(caller.claim(claim)) for claim in CLAIMS]

    @strawberry.field(description="A claim that no domain declares.")  # type: ignore[untyped-decorator]
    async def undeclared(self, info: Info) -> str | None:
        return info.context.require_caller().claim(Caller.Claim("tenant", str))


DOMAIN = Domain(
    name="lending",
    about="Books.",
    roles=(LIBRARIAN, OTHER),
    claims=CLAIMS,
    mutations=(LendingMutation,),
    queries=(LendingQuery,),
)
LEND = 'mutation { lend(input: {book: "Emma"}) { book } }'


@pytest.fixture
async def lending(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayClient]:
    async with serving(monkeypatch, replace(settings, domains="lending"), "lending", __name__) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("roles", "may_lend"), [((LIBRARIAN,), True), ((Role.ADMIN,), True), ((OTHER, Role.EDITOR), False), ((), False)]
)
async def test_a_mutation_and_a_rule_require_the_role_of_the_token(
    lending: GatewayClient, roles: tuple[Role, ...], may_lend: bool
) -> None:
    caller = lending.as_caller("ann", *roles)

    lent = await caller.ask(LEND)

    assert (await caller.data("{ mayLend }"))["mayLend"] is may_lend
    assert lent.body["data"] == {"lend": {"book": "Emma"} if may_lend else None}
    assert lent.codes == ([] if may_lend else ["FORBIDDEN"])


async def test_a_domain_reads_claims_of_its_own(lending: GatewayClient) -> None:
    caller = lending.as_caller("ann", branch="north", shelves=[1, {"b": 2**70}], rate=2)

    assert (await caller.data("{ claims }"))["claims"] == ["'north'", f"[1, {{'b': {2**70}}}]", "2", "None"]


async def test_a_claim_of_another_type_counts_as_none_and_is_logged_once(
    lending: GatewayClient, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    configure(replace(settings, log_level="info"))
    for subject in ("ann", "ben"):
        caller = lending.as_caller(subject, branch=5, shelves="all", rate=True, guest=True)
        assert (await caller.data("{ claims }"))["claims"] == ["None", "None", "None", "True"]

    configure(settings)
    lines = [line for line in "".join(capfd.readouterr()).splitlines() if "claim of another type" in line]
    assert [line.rpartition("claim=")[2].split()[0] for line in lines] == ["branch", "shelves", "rate"]


async def test_a_claim_that_no_domain_declares_is_a_fault(lending: GatewayClient) -> None:
    assert (await lending.as_caller("ann", tenant="acme").ask("{ undeclared }")).codes == ["INTERNAL"]
    with pytest.raises(LookupError, match=r"No served domain declares the claim tenant\. List it in `claims`"):
        Caller("ann", frozenset()).claim(Caller.Claim("tenant", str))


async def test_the_schema_shows_the_roles_of_the_domains_after_those_of_portico(lending: GatewayClient) -> None:
    caller = lending.as_caller("ann", LIBRARIAN, Role.EDITOR, OTHER)

    data = await caller.data('{ viewer { roles } __type(name: "Role") { enumValues { name description } } }')

    assert data["viewer"]["roles"] == ["EDITOR", "LIBRARIAN", "ARCHIVIST"]
    shown = {value["name"]: value["description"] for value in data["__type"]["enumValues"]}
    assert list(shown) == [*(role.name for role in OWN_ROLES), "LIBRARIAN", "ARCHIVIST"]
    assert shown["LIBRARIAN"] == "The books and their readers."


def test_other_gateways_of_the_process_do_not_have_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch, "lending", __name__):
        own, built_in = schema_of(load(["lending"])), schema_of(load(["catalog"]))

    assert "LIBRARIAN" in own.as_str()
    assert "LIBRARIAN" not in built_in.as_str()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roles": (LIBRARIAN, LIBRARIAN)}, "declares the role LIBRARIAN twice"),
        ({"roles": (LIBRARIAN, Role("EDITOR", "Texts."))}, "declares the role EDITOR, which the gateway already"),
        ({"roles": (LIBRARIAN, Role("ARCHIVIST"))}, "declares the role ARCHIVIST without a description. Give it one"),
        ({"roles": (OTHER,)}, "declares the mutation lend for the role LIBRARIAN, which no served domain declares"),
        ({"claims": (Caller.Claim("sub", str),)}, "declares the claim sub, which the gateway already declares"),
        ({"claims": (BRANCH, BRANCH)}, "declares the claim branch twice"),
    ],
)
def test_a_role_or_a_claim_that_is_taken_or_not_declared_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(f"{__name__}.DOMAIN", replace(DOMAIN, **changes))

    with served(monkeypatch, "lending", __name__), pytest.raises(InvalidDomains, match=message):
        schema_of(load(["lending"]))


@pytest.mark.parametrize("name", ["librarian", "", "A-B", "1A", "É"])
def test_the_name_of_a_role_is_a_constant(name: str) -> None:
    with pytest.raises(ValueError, match="capital letters"):
        Role(name, "Books.")


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
    def load_none() -> tuple[Role, ...]:
        raise AssertionError("loaded")

    assert roles_named(["editor"], load_none) == [Role.EDITOR]
    with pytest.raises(UnknownRole, match=r"'emperor' is not one of 'ADMIN', 'EDITOR', 'SERVICE', 'LIBRARIAN'"):
        roles_named(["emperor"], lambda: [LIBRARIAN])


@pytest.mark.parametrize(("name", "kind"), [("", str), ("tenant", tuple), ("tenant", int | None)])
def test_a_claim_has_a_name_and_a_type_of_json(name: str, kind: Any) -> None:
    with pytest.raises(ValueError, match="one of the kinds str, int, float, bool, list, dict"):
        Caller.Claim(name, kind)


def test_domains_share_roles_and_claims_that_they_declare_in_the_same_way() -> None:
    same = Domain(name="archive", about="Old books.", roles=(OTHER,), claims=(BRANCH,))
    together = Domains([DOMAIN, same])

    assert list(together.roles) == [LIBRARIAN, OTHER]
    assert list(together.claims) == list(CLAIMS)
    for changes in ({"roles": (Role("ARCHIVIST", "Files."),)}, {"claims": (Caller.Claim("branch", int),)}):
        with pytest.raises(
            InvalidDomains, match=r"domain archive declares the (role|claim) .* in another way than the"
        ):
            Domains([DOMAIN, replace(same, **changes)])


@pytest.mark.parametrize("name", ["MERCHANT", "GAME_MASTER", "ADVERTISER", "ANALYST"])
def test_a_role_of_a_domain_is_still_found_by_its_name_of_the_last_release(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"`Role.{name}` is deprecated") as caught:
        assert getattr(Role, name) == Role(name)

    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(AttributeError, match="no attribute 'EMPEROR'"):
        Role.EMPEROR  # type: ignore[attr-defined]  # noqa: B018 - the access raises


async def test_without_its_domain_a_role_is_unknown(settings: Settings) -> None:
    async with running(replace(settings, domains="accounts")) as gateway:
        data = await gateway.as_caller("ann", MERCHANT, Role.EDITOR).data(
            '{ viewer { roles } __type(name: "Role") { enumValues { name } } }'
        )

    assert data == {
        "viewer": {"roles": ["EDITOR"]},
        "__type": {"enumValues": [{"name": role.name} for role in OWN_ROLES]},
    }


def test_what_an_answer_depends_on_includes_the_role() -> None:
    caller = WatchedCaller.of(Caller("ann", frozenset({LIBRARIAN})))

    assert caller.has(LIBRARIAN)
    assert caller.facts == {LIBRARIAN: True}
    assert not agrees(Caller("ben", frozenset()), caller.facts)
    assert agrees(Caller("ben", frozenset({LIBRARIAN})), caller.facts)


async def test_a_slot_has_one_value_for_each_operation(lending: GatewayClient) -> None:
    first, second = [lending.state.context(None, "a request") for _ in range(2)]

    first.slot("names", list[str]).append("a")

    assert (first.slot("names", list[str]), second.slot("names", list[str])) == (["a"], [])
