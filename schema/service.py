"""The meta-field `__service`: what clients can rely on beyond the schema.

Like `__schema`, the field is implicit: introspection lists neither it nor its types, because tools refuse unknown names
that begin with two underscores.

Source: the proposal "Service capabilities" for the GraphQL specification (graphql-spec, pull requests 1163 and 1208).
"""

from __future__ import annotations

from graphql import (
    GraphQLCompositeType,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLString,
)

from .fields import costs

SERVICE = "__service"
# What becomes of an error of a field if the request has no `onError`.
DEFAULT_ERROR_BEHAVIOR = "PROPAGATE"
# By their identifiers. A capability can have a value.
_CAPABILITIES: dict[str, str | None] = {
    "graphql.onError": None,
    "graphql.defaultErrorBehavior": DEFAULT_ERROR_BEHAVIOR,
}

_Capability = GraphQLObjectType(
    "__Capability",
    {"identifier": GraphQLField(GraphQLNonNull(GraphQLString)), "value": GraphQLField(GraphQLString)},
)
# Another version of the gateway can have other capabilities.
_FRESH = costs(max_age=300)
_Capabilities = GraphQLNonNull(GraphQLList(GraphQLNonNull(_Capability)))
ServiceType = GraphQLObjectType("__Service", {"capabilities": GraphQLField(_Capabilities, extensions=_FRESH)})
_FIELD = GraphQLField(
    GraphQLNonNull(ServiceType),
    extensions=_FRESH,
    resolve=lambda _source, _info: {
        "capabilities": [{"identifier": name, "value": value} for name, value in _CAPABILITIES.items()]
    },
)


class SchemaOfService(GraphQLSchema):
    """A schema whose queries can select `__service`."""

    def get_field(self, parent_type: GraphQLCompositeType, field_name: str) -> GraphQLField | None:
        if field_name == SERVICE:
            return _FIELD if parent_type is self.query_type else None
        return super().get_field(parent_type, field_name)
