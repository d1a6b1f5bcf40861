"""A plan calls resolvers without strawberry's wrappers, with the same result."""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from typing import Any, cast

import pytest
import strawberry
from graphql import ExecutionResult, GraphQLSchema, parse
from strawberry.extensions import FieldExtension
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import StrawberryResolver

from portico.gateway.operations.documents import Operation
from portico.gateway.operations.plans.executor import PlanExecutor, run_reference
from portico.gateway.operations.plans.resolvers import direct_resolver
from tests.support import domains


@strawberry.enum
class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


@strawberry.input
class Wanted:
    name: str
    colours: list[Colour] = strawberry.field(default_factory=list)
    size: strawberry.Maybe[int | None]


@strawberry.type
class Failed:
    message: str


@strawberry.type
class Done:
    text: str


class Shouting(FieldExtension):
    def resolve(self, next_: Any, source: Any, info: strawberry.Info, **given: Any) -> Any:
        return next_(source, info, **given).upper()


class Loud(StrawberryField):
    """A field of its own class, which changes the results of resolvers."""

    def get_result(self, *given: Any, **more: Any) -> Any:
        return f"{super().get_result(*given, **more)}!"


def _of_parent(parent: strawberry.Parent[Any], word: str) -> str:
    return f"{parent} {word}"


@strawberry.type
class Query:
    @strawberry.field
    def plain(self, first_word: str, colour: Colour = Colour.RED, count: int | None = None) -> str:
        return f"{self} {first_word} {colour!r} {count}"

    @strawberry.field
    async def waits(self, info: strawberry.Info, key: strawberry.ID | None = None) -> str:
        return f"{info.field_name} {info.python_name} {info.context} {key}"

    @strawberry.field
    def wanted(self, given: Wanted, others: list[Wanted] | None = None) -> str:
        return repr((given, others))

    @strawberry.field
    def node(self, key: strawberry.relay.GlobalID) -> str:
        return f"{key.type_name} {key.node_id}"

    @strawberry.field
    def maybe(self, size: strawberry.Maybe[int | None]) -> str:
        return repr(size)

    @strawberry.field
    def fails(self) -> str:
        raise ValueError("no")

    @strawberry.field
    def either(self) -> Done | Failed:
        return Done(text="done")

    extended: str = strawberry.field(resolver=lambda: "quiet", extensions=[Shouting()], graphql_type=str)
    of_parent: str = strawberry.field(resolver=_of_parent)
    loud: str = cast("Any", Loud(base_resolver=StrawberryResolver(lambda: "quiet")))


SCHEMA = strawberry.Schema(Query)
CORE: GraphQLSchema = SCHEMA._schema


def field_of(name: str) -> Any:
    definition = cast("Any", CORE.query_type).fields[name]
    return direct_resolver(CORE, definition, definition.extensions["strawberry-definition"])


async def ended(result: ExecutionResult | Awaitable[ExecutionResult]) -> tuple[Any, list[str]]:
    found = result if isinstance(result, ExecutionResult) else await result
    return found.data, [str(error) for error in found.errors or ()]


@pytest.mark.parametrize(
    ("selection", "variables"),
    [
        ('plain(firstWord: "a")', {}),
        ('plain(firstWord: "a", colour: BLUE, count: 3)', {}),
        ('plain(firstWord: "a", count: null)', {}),
        ("plain(firstWord: $text)", {"text": "b"}),
        ("waits", {}),
        ('waits(key: "x")', {}),
        ('wanted(given: {name: "a"})', {}),
        ('wanted(given: {name: "a", colours: [RED, BLUE], size: 2}, others: [{name: "b", size: null}])', {}),
        ("wanted(given: {name: $text}, others: [{name: $text}])", {"text": "c"}),
        ('node(key: "RG9uZTox")', {}),
        ('node(key: "not an id")', {}),
        ("maybe", {}),
        ("maybe(size: null)", {}),
        ("maybe(size: 3)", {}),
        ("fails", {}),
        ("extended", {}),
        ("loud", {}),
        ("either { __typename ... on Done { text } }", {}),
        ('ofParent(word: "a")', {}),
    ],
)
async def test_a_resolver_that_a_plan_calls_answers_as_if_strawberry_called_it(
    selection: str, variables: dict[str, Any]
) -> None:
    head = "query ($text: String!)" if variables else "query"
    operation = Operation(parse(f"{head} {{ {selection} }}"))
    definition = operation.definition(None)

    planned = await ended(PlanExecutor(CORE).run(operation, definition, variables, "context", "source"))

    assert planned == await ended(run_reference(CORE, operation.document, None, variables, "context", "source"))


@pytest.mark.parametrize(
    "name", ["plain", "waits", "wanted", "node", "maybe", "fails", "either", "ofParent", "extended"]
)
def test_a_resolver_is_called_directly_unless_its_field_has_an_extension(name: str) -> None:
    assert (field_of(name) is None) is (name == "extended")


def test_the_functions_of_all_mutations_are_called_directly() -> None:
    core = domains.SCHEMA._schema
    mutations = cast("Any", core.mutation_type).fields

    indirect = [
        name
        for name, definition in mutations.items()
        if direct_resolver(core, definition, definition.extensions["strawberry-definition"]) is None
    ]

    assert mutations
    assert indirect == []
