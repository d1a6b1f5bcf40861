"""`portico explain`: the plan of an operation, without a database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.tree import Tree

from portico.gateway.domains import load, schema_of
from portico.gateway.operations.documents import InvalidOperation, Operations
from portico.gateway.operations.plans.describe import describe, tree
from portico.gateway.operations.plans.executor import PlanExecutor
from portico.gateway.operations.plans.plan import InvalidVariables, NotCompiled
from portico.gateway.settings import Settings


def plan_of_text(text: str, name: str | None, variables: Mapping[str, Any], settings: Settings) -> Tree:
    """Returns the plan of an operation as a tree for a terminal. Raises InvalidOperation, also for wrong variables."""
    schema = schema_of(load(settings.domain_names))._schema  # noqa: SLF001 - strawberry has no public name for it
    operations = Operations(schema, settings)
    operation = operations.get(text)
    definition, _ = operations.check(operation, name, variables)
    try:
        plan = PlanExecutor(schema).plan_of(operation, definition, variables)
    except InvalidVariables as invalid:
        raise InvalidOperation(invalid.errors) from None
    if isinstance(plan, NotCompiled):
        return Tree(f"graphql-core runs this operation: {plan} is not compiled.")
    return tree(describe(plan))
