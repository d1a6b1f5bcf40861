"""The public schema: everything in it is described, and similar fields have similar shapes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
    get_named_type,
    get_nullable_type,
    is_non_null_type,
    is_required_input_field,
    is_specified_scalar_type,
)
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types.arguments import convert_argument

from portico.gateway.cli.schema_check import Severity, check, print_sdl
from tests.support import domains

# What it is built from. Clients see it as the fixture `schema`.
SERVED = domains.SCHEMA._schema
MUTATIONS = sorted(getattr(SERVED.mutation_type, "fields", {}))
CONNECTIONS = sorted(name for name in SERVED.type_map if name.endswith("Connection"))
BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF
# Mutations that record batches, and what an entry is.
BATCHES = {"logEvents": "LogEvent", "recordHits": "Hit", "recordSessions": "Session"}
# Mutations that do the same to several types share their results.
_WITH_ITEM = ("pickUp", "drop", "takeOut", "putIn", "wear", "wield", "unequip", "give")
SHARED_RESULTS = {
    **dict.fromkeys(BATCHES, "RecordResult"),
    "recordAdEvent": "AdEventResult",
    **dict.fromkeys(_WITH_ITEM, "ItemResult"),
    "sell": "BuyResult",
    "createSection": "CreateContentResult",
    "createPage": "CreateContentResult",
    "createBlogEntry": "CreateContentResult",
    "editText": "EditContentResult",
    "editMetadata": "EditContentResult",
    "restoreRevision": "EditContentResult",
    "addTags": "TagsResult",
    "removeTags": "TagsResult",
    "deleteComment": "EditCommentResult",
    "updateProfile": "UserResult",
    "addToCircle": "UserResult",
    "removeFromCircle": "UserResult",
    "block": "UserResult",
    "unblock": "UserResult",
    "createPost": "PostResult",
    "commentOnPost": "PostResult",
    "deletePostComment": "PostResult",
    "vote": "PostResult",
    "consume": "StackResult",
    "transferStack": "StackResult",
    "offerTrade": "TradeResult",
    "acceptTrade": "TradeResult",
    "cancelTrade": "TradeResult",
}
SHARED_INPUTS = {
    "addTags": "TagsInput!",
    "removeTags": "TagsInput!",
    "addToCircle": "CircleInput!",
    "removeFromCircle": "CircleInput!",
    "block": "BlockInput!",
    "unblock": "BlockInput!",
    "acceptTrade": "TradeInput!",
    "cancelTrade": "TradeInput!",
    "deactivateCampaign": "CampaignInput!",
    "recordAdEvent": "AdEventInput!",
    **{name: f"[{entry}Input!]!" for name, entry in BATCHES.items()},
    **dict.fromkeys(("pickUp", "drop", "unequip"), "ItemInput!"),
    **dict.fromkeys(("takeOut", "putIn"), "ContainerInput!"),
}


@pytest.fixture(scope="module")
def schema() -> GraphQLSchema:
    """The schema as clients see it."""
    return build_schema(print_sdl(domains.SCHEMA))


def types_of(schema: GraphQLSchema) -> list[GraphQLNamedType]:
    return [
        found
        for found in schema.type_map.values()
        if not found.name.startswith("__") and not is_specified_scalar_type(found)
    ]


def field_of(schema: GraphQLSchema, mutation: str) -> GraphQLField:
    assert schema.mutation_type is not None
    found: GraphQLField = schema.mutation_type.fields[mutation]
    return found


def parts_of(found: GraphQLNamedType) -> Iterator[tuple[str, str | None]]:
    """Each part of a type, with its description."""
    yield found.name, found.description
    if isinstance(found, GraphQLEnumType):
        for name, value in found.values.items():
            yield f"{found.name}.{name}", value.description
    if isinstance(found, GraphQLObjectType | GraphQLInterfaceType):
        for name, field in found.fields.items():
            yield f"{found.name}.{name}", field.description
            for argument_name, argument in field.args.items():
                yield f"{found.name}.{name}({argument_name})", argument.description
    if isinstance(found, GraphQLInputObjectType):
        for name, given in found.fields.items():
            yield f"{found.name}.{name}", given.description


def test_everything_is_described(schema: GraphQLSchema) -> None:
    parts = [part for found in types_of(schema) for part in parts_of(found)]

    assert [name for name, description in parts if not (description or "").strip()] == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_takes_one_input_and_returns_a_union_of_its_payload_and_its_errors(
    schema: GraphQLSchema, name: str
) -> None:
    field = field_of(schema, name)
    title = name[0].upper() + name[1:]

    assert {argument: str(given.type) for argument, given in field.args.items() if argument != "durability"} == {
        # `createCart` has no required input.
        "input": "CreateCartInput" if name == "createCart" else SHARED_INPUTS.get(name, f"{title}Input!")
    }
    assert isinstance(field.type, GraphQLUnionType)
    assert field.type.name == SHARED_RESULTS.get(name, f"{title}Result")
    members = {member.name: {face.name for face in member.interfaces} for member in field.type.types}
    payloads = [member for member in members if member.endswith("Payload")]
    assert len(payloads) == 1
    assert all("UserError" in faces for member, faces in members.items() if member not in payloads)
    assert "UserError" not in members[payloads[0]]


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_can_be_repeated_with_a_key(schema: GraphQLSchema, name: str) -> None:
    given = get_named_type(field_of(schema, name).args["input"].type)

    assert isinstance(given, GraphQLInputObjectType)
    if name in BATCHES:
        # Each entry of a batch has an id of its own.
        assert str(given.fields["eventId"].type) == "ID"
        return
    # The key is required if an interrupted call must not run a second time under another key.
    money = {"restock", "checkout", "deposit", "transfer"}
    is_required = name in {*money, "grant", "consume", "transferStack", "offerTrade"}
    assert str(given.fields["idempotencyKey"].type) == ("String!" if is_required else "String")


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_every_connection_has_the_same_shape(schema: GraphQLSchema, connection: str) -> None:
    found, name = schema.type_map[connection], connection.removesuffix("Connection")
    assert isinstance(found, GraphQLObjectType)
    # A connection of content nodes is called `ContentConnection`.
    row = "ContentNode" if name == "Content" else name
    edge = schema.type_map[f"{name}Edge"]

    fields = {field: str(declared.type) for field, declared in found.fields.items()}
    assert fields.items() >= {("edges", f"[{name}Edge!]!"), ("nodes", f"[{row}!]!"), ("pageInfo", "PageInfo!")}
    assert isinstance(edge, GraphQLObjectType)
    assert {name: str(field.type) for name, field in edge.fields.items()}.items() >= {
        ("cursor", "String!"),
        ("node", f"{row}!"),
    }


def test_every_connection_is_paged_in_the_same_way(schema: GraphQLSchema) -> None:
    paged = 0
    for found in types_of(schema):
        for name, field in getattr(found, "fields", {}).items():
            if get_named_type(field.type).name in CONNECTIONS:
                paged += 1
                # A list at a root, or of the viewer, can fail without its page.
                assert is_non_null_type(field.type) is (found.name not in {"Query", "Viewer"}), name
                assert str(field.args["first"].type) == "Int"
                assert str(field.args["after"].type) == "String"
                default = field.args["first"].ast_node.default_value
                assert 1 <= int(default.value) <= 100
    assert paged >= len(CONNECTIONS) > 0


def test_every_object_with_an_id_can_be_fetched_by_it(schema: GraphQLSchema) -> None:
    node = schema.type_map["Node"]
    assert isinstance(node, GraphQLInterfaceType)

    for found in schema.get_possible_types(node):
        assert str(found.fields["id"].type) == "ID!"


def test_the_schema_has_no_breaking_change_since_the_committed_one() -> None:
    committed = (Path(__file__).parents[2] / "schema.graphql").read_text()

    assert [
        change.description for change in check(committed, domains.SCHEMA) if change.severity is Severity.BREAKING
    ] == []


@pytest.mark.parametrize("whole", [False, True])
def test_values_of_inputs_are_built_as_strawberry_builds_them(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    served = SERVED.type_map.values()
    inputs = {found.name: found for found in served if isinstance(found, GraphQLInputObjectType)}
    definitions = {name: found.extensions[BACKREF] for name, found in inputs.items() if BACKREF in found.extensions}
    scalars = domains.SCHEMA.schema_converter.scalar_registry

    def values() -> dict[str, Any]:
        return {
            name: convert_argument(_sample(inputs[name], whole=whole), found.origin, scalars, domains.SCHEMA.config)
            for name, found in definitions.items()
        }

    built = values()
    own = [definition for definition in definitions.values() if definition.from_input is not None]
    assert len(own) > 80
    for definition in own:
        monkeypatch.setattr(definition, "from_input", None)

    assert values() == built


def _sample(input_type: GraphQLInputType, *, whole: bool, depth: int = 0) -> Any:
    """Return a coerced value of an input: the whole one, or one with the required fields alone."""
    inner = get_nullable_type(input_type)
    if isinstance(inner, GraphQLList):
        return [_sample(inner.of_type, whole=whole, depth=depth + 1)]
    if not isinstance(inner, GraphQLInputObjectType):
        return f"a leaf of {inner}"
    fields = inner.fields.items()
    shown = [(name, field) for name, field in fields if is_required_input_field(field) or (whole and depth < 3)]
    return {name: _sample(field.type, whole=whole, depth=depth + 1) for name, field in shown}
