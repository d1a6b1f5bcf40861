"""Makes graphql-core's info, which describes a field to its resolver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from graphql import GraphQLResolveInfo
from graphql.execution.values import VariableValues
from graphql.pyutils import is_awaitable
from graphql.type import GraphQLResolveInfoHelpers

from portico.schema.context import Context, of_root_field

from .places import Place, core_path
from .plan import FieldPlan, Plan


def context_of_root_field(context: Any) -> Any:
    """Returns the context of the next root field of a mutation, from that of the whole operation."""
    return of_root_field(context) if isinstance(context, Context) else context


def resolve_info(
    plan: Plan, field: FieldPlan, here: Place, variables: VariableValues, context: Any, root_value: Any
) -> GraphQLResolveInfo[Any]:
    return GraphQLResolveInfo(
        field.name,
        field.nodes,
        field.definition.type,
        field.parent,
        core_path(here),
        plan.schema,
        plan.fragments,
        root_value,
        plan.definition,
        # Strawberry's info reads the coerced variables as a plain mapping.
        variables.coerced,  # type: ignore[arg-type]
        context,
        is_awaitable,
        None,
        _HELPERS,
    )


async def _gather(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    return list(await asyncio.gather(*awaitables))


def _track(_values: Sequence[Any]) -> None:
    """Does nothing: a run awaits all its awaitables, so none outlives it."""


_HELPERS = GraphQLResolveInfoHelpers(_gather, _track)
