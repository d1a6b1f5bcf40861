"""The reasons of notifications, to which domains contribute."""

from collections.abc import Mapping

from graphql import GraphQLEnumType, GraphQLEnumValue, GraphQLSchema


def add_reasons(schema: GraphQLSchema, reasons: Mapping[str, str]) -> None:
    """Adds the reasons of domains, with their descriptions, to the enum of the schema. Clients get their names."""
    shown = schema.type_map.get("NotificationReason")
    if isinstance(shown, GraphQLEnumType):
        shown.values |= {name: GraphQLEnumValue(name, about) for name, about in reasons.items()}
