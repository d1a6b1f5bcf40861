"""If a domain of another package cannot be served, the start ends with one line that names the package."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from tests.support.processes import as_variables, environment, portico

from .broken_declarations import DECLARATIONS, HEAD, Broken, domain, extra, thing

CASES = {
    **DECLARATIONS,
    "an import that fails": Broken(
        "import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
    ),
    "an error of several lines": Broken("raise ValueError('one\\ntwo')", "cannot be imported: ValueError: one two"),
    "an exit": Broken("raise SystemExit(7)", "cannot be imported: SystemExit: 7"),
    "no domain": Broken("DOMAIN = 1", "the package portico-extra is not a Domain with the name extra."),
    "a name that is taken": Broken(
        "DOMAIN = None", "declares the domain catalog, but Portico itself already declares it.", name="catalog"
    ),
    "a need that is missing": Broken(
        "DOMAIN = Domain(name='extra', about='Extra.', needs=('weather',))", "needs weather, which is not served."
    ),
    "a root field of another domain": Broken(
        extra("queries=(Extra,)", field="products"),
        "adds the field products to Query, but the domain catalog already adds it. Rename one of the fields.",
    ),
    "a root field of Portico": Broken(
        extra("queries=(Extra,)", field="node"),
        "adds the field node to Query, which already has one. Rename the added field.",
    ),
    "a field that a type has": Broken(
        extra("extensions={'Product': (Extra,)}", field="title"),
        "adds the field title to AudioAlbum, which already has one. Rename the added field.",
    ),
    "a collection that is taken": Broken(
        domain("collections=(CollectionSpec('products'),)"),
        "declares the collection products, which the domain catalog already declares.",
    ),
    "a collection of the gateway": Broken(
        domain("collections=(CollectionSpec('operations'),)"),
        "declares the collection operations, which the gateway already declares.",
    ),
    "a collection twice": Broken(
        domain("collections=(CollectionSpec('a'), CollectionSpec('a'))"),
        "declares the collection a twice.",
    ),
    "a kind of a collection that is not declared": Broken(
        thing().replace("collections=(THINGS,), ", ""),
        "declares the kind Thing, but no domain declares its collection things. Add it to `collections`.",
    ),
    "a kind within something that is no function": Broken(
        thing(rule="within=('Product', 'product_id')"),
        "cannot be imported: TypeError: `within` of the kind Thing must be a function; got ('Product', 'product_id').",
    ),
    "a role that is a text": Broken(
        domain("roles=('BOSS',)"),
        "has 'BOSS' among its roles, which is not a `portico.Role`.",
    ),
    "a job of the gateway": Broken(
        domain("jobs=(portico.jobs.Job('upgrade-documents', print),)"),
        "declares the job upgrade-documents, which the gateway already declares.",
    ),
    "documents of a kind without a host": Broken(
        """
        THINGS = CollectionSpec("things")
        OWNED = writes.Attachments.Owned("Prodduct", ((THINGS, "sku", "product"),))
        DOMAIN = Domain(name="extra", about="Extra.", collections=(THINGS,), attachments=(OWNED,))
        """,
        "attaches documents to the kind Prodduct, which no served domain declares as a host. The hosts are: ",
    ),
    "a mutation without an operation id": Broken(
        """
        @strawberry.type
        class Extra:
            @strawberry.mutation
            async def add_extra(self) -> str:
                return "extra"

        DOMAIN = Domain(name="extra", about="Extra.", mutations=(Extra,))
        """,
        "declares the mutation addExtra without an operation id. "
        "Declare it with `portico.schema.mutation` instead of `strawberry.mutation`.",
    ),
    "a mutation with a role that is none": Broken(
        """
        from enum import Enum

        class Rank(Enum):
            CHIEF = "CHIEF"

        class Extra:
            add_extra = schema.mutation(role=Rank.CHIEF, description="Adds.")
        """,
        "cannot be imported: TypeError: `role` of a mutation must be a `portico.Role`; got <Rank.CHIEF",
    ),
    "a kind without a rule": Broken(
        thing(rule=""),
        "declares the kind Thing without a visibility rule. Give it `visible_to` (`everybody`, if all",
    ),
    "a kind without a type": Broken(
        thing(types_of=""),
        "declares the kind Thing, but the schema has no type Thing. "
        "Return the type from a field, or list it in `types` of the domain.",
    ),
    "a relation to an unknown kind": Broken(
        thing('other: "Thing | None" = schema.related("Thingg", "other", description="Another.")'),
        "breaks the schema: UnknownKind: Thing.other is related to the kind Thingg, which no served domain declares. "
        "Did you mean Thing?",
    ),
    "ids of an unknown kind": Broken(
        thing().replace('node_id("Thing"', 'node_id("Thingg"'),
        "breaks the schema: UnknownKind: Thing.id is an id of the kind Thingg, which no served domain declares. "
        "Did you mean Thing?",
    ),
    "ids of another kind": Broken(
        thing().replace('node_id("Thing"', 'node_id("Product"'),
        "declares the type Thing of the kind Thing, but Thing.id is an id of the kind Product. "
        "Name the kind Thing in `node_id`.",
    ),
    "fields of an unknown type": Broken(
        extra("extensions={'Prodduct': (Extra,)}"),
        "extends the type Prodduct, which the schema does not have. Did you mean Product?",
    ),
    "a tab of GraphiQL without its file": Broken(
        domain("examples=(('Extra', 'extra.graphql'),)"),
        "declares the GraphiQL tab Extra with the file extra.graphql, which does not exist. Add the file",
    ),
    "a second type for an error": Broken(
        """
        @schema.member(portico.NotFound)
        @strawberry.type
        class Gone(schema.UserError):
            pass
        """,
        "cannot be imported: ValueError: Gone cannot represent NotFound: NotFound already does.",
    ),
    "an error in a union that is no failure": Broken(
        """
        from typing import Annotated

        class Plain(portico.DomainError):
            pass

        @strawberry.type
        class Payload:
            done: bool

        @strawberry.type
        class Extra:
            @schema.mutation(description="Adds.")
            async def add_extra(self) -> Annotated[Payload | Plain, strawberry.union("ExtraResult")] | None: ...

        DOMAIN = Domain(name="extra", about="Extra.", mutations=(Extra,))
        """,
        "breaks the schema: InvalidUnionTypeError: Type `Plain` cannot be used in a GraphQL Union. "
        "Declare the error with `portico.schema.failure`.",
    ),
    "an error in a union whose base is a failure": Broken(
        """
        from typing import Annotated

        class Gone(portico.NotFound):
            pass

        @strawberry.type
        class Payload:
            done: bool

        @strawberry.type
        class Extra:
            @schema.mutation(description="Adds.")
            async def add_extra(self) -> Annotated[Payload | Gone, strawberry.union("ExtraResult")] | None: ...

        DOMAIN = Domain(name="extra", about="Extra.", mutations=(Extra,))
        """,
        "so it can't be used in the schema. Declare the error with `portico.schema.failure`.",
    ),
    "a change source with a path that is none": Broken(
        "ChangeSource(frozenset({'things'}), {}, ('fullDocument.',), print)",
        "cannot be imported: ValueError: `paths` of a change source has 'fullDocument.', which is not the path",
    ),
    "a setting that is taken": Broken(
        """
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Extra:
            database: str = setting("extra", "Extra.")

        DOMAIN = Domain(name="extra", about="Extra.", settings=Extra)
        """,
        "declares the setting PORTICO_DATABASE, which the gateway already declares.",
    ),
    "an error code that is taken": Broken(
        domain("error_codes={'CONFLICT': 'Extra.'}"),
        "declares the error code CONFLICT, which the gateway already declares.",
    ),
    "a command that is taken": Broken(
        "from portico.jobs import Command\n" + domain("commands=(Command('serve', 'Extra.', print),)"),
        "declares the command serve, which the gateway already declares.",
    ),
    "a path that is taken": Broken(
        """
        from starlette.responses import Response
        from starlette.routing import Route

        PATHS = "/extra", "/livez"
        DOMAIN = Domain(
            name="extra", about="Extra.", routes=lambda state: [Route(path, lambda _: Response()) for path in PATHS]
        )
        """,
        "declares the path /livez, which the gateway already declares.",
    ),
    "routes that need a running gateway": Broken(
        domain("routes=lambda state: [state().settings]"),
        "cannot list its routes: RuntimeError: The gateway has not started.",
    ),
    "a path for two protocols that is taken": Broken(
        """
        from starlette.routing import Route, WebSocketRoute

        PATHS = Route("/extra", print), WebSocketRoute("/extra", print), Route("/metrics", print)
        DOMAIN = Domain(name="extra", about="Extra.", routes=lambda state: PATHS)
        """,
        "declares the path /metrics, which the gateway already declares.",
    ),
    "a tab of GraphiQL that is taken": Broken(
        domain("examples=(('Shop', 'shop.graphql'),)"),
        "declares the GraphiQL tab Shop, which the domain shop already declares.",
    ),
    "a type that is defined twice": Broken(
        """
        @strawberry.type
        class Product:
            name: str

        @strawberry.type
        class Extra:
            @strawberry.field
            def extra(self) -> Product: ...

        DOMAIN = Domain(name="extra", about="Extra.", queries=(Extra,))
        """,
        "breaks the schema: DuplicatedTypeName: Type Product is defined multiple times in the schema",
    ),
}


def install(folder: Path, broken: Broken) -> dict[str, str]:
    """Put the package on Python's path, and return the environment."""
    (folder / "portico_extra.py").write_text(HEAD + textwrap.dedent(broken.source))
    described = folder / "portico_extra-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: portico-extra\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[portico.domains]\n{broken.name} = portico_extra:DOMAIN\n")
    return environment(PYTHONPATH=str(folder))


@pytest.mark.sample(6)
@pytest.mark.parametrize("case", CASES)
def test_a_broken_domain_ends_the_start_with_one_line_of_error(tmp_path: Path, case: str) -> None:
    done = portico("schema", env=install(tmp_path, CASES[case]), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "portico-extra" in done.stderr
    assert CASES[case].message in done.stderr


def test_a_gateway_with_several_workers_does_not_start_with_a_broken_domain(tmp_path: Path) -> None:
    env = install(tmp_path, CASES["a root field of Portico"]) | {"PORTICO_DATA_DIR": str(tmp_path)}

    done = portico("serve", "--port", "0", "--workers", "2", env=env, cwd=tmp_path)

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert "portico-extra" in done.stderr


REFUSING = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Extra:
    loan_days: float = setting(5, "The days.")

    def __post_init__(self):
        self.loan_days <= 10 or self.refuse()

    def refuse(self):
        raise ValueError("PORTICO_LOAN_DAYS must be at most 10.")

def require(settings):
    settings.of(Extra).loan_days != 7 or settings.of(Extra).refuse()

DOMAIN = Domain(name="extra", about="Extra.", settings=Extra, require=require)
"""


@pytest.mark.parametrize("days", ["7", "11"])
def test_a_domain_refuses_its_settings_with_one_line(tmp_path: Path, days: str) -> None:
    env = install(tmp_path, Broken(REFUSING, "")) | {"PORTICO_LOAN_DAYS": days}

    done = portico("serve", "--port", "0", env=env, cwd=tmp_path)

    line = "refuses its settings: ValueError: PORTICO_LOAN_DAYS must be at most 10."
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"portico: the domain extra of the package portico-extra {line}\n"


SILENT = """
async def remind(run):
    run.print("Reminded.")

DOMAIN = Domain(name="extra", about="Extra.", commands=(portico.jobs.Command("remind", "Reminds.", remind),))
"""


def test_a_command_that_does_not_say_whether_it_went_well_ends_with_one_line(
    tmp_path: Path, settings: Settings
) -> None:
    env = install(tmp_path, Broken(SILENT, ""))

    done = portico("remind", env=env | as_variables(settings), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "Reminded.\n")
    assert done.stderr == "portico: the command remind must return True or False; it returned None.\n"


def test_a_broken_domain_that_is_not_enabled_breaks_nothing(tmp_path: Path) -> None:
    env = install(tmp_path, CASES["an import that fails"]) | {"PORTICO_DOMAINS": "accounts"}

    assert "type Account " in portico("schema", env=env, cwd=tmp_path).stdout
