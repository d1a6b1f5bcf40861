"""`portico explain`: the plan of an operation, and what its fields cost, without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from portico.gateway.domains import load, schema_of
from portico.gateway.operations.documents import InvalidOperation, Operations
from portico.gateway.operations.plans.describe import describe
from portico.gateway.operations.plans.executor import PlanExecutor
from portico.gateway.operations.plans.plan import InvalidVariables, NotCompiled
from portico.gateway.operations.weights import Weighed
from portico.gateway.settings import Settings


def plan_of_text(text: str, name: str | None, variables: Mapping[str, Any], settings: Settings) -> Tree:
    """Returns the plan and the cost of an operation as a tree for a terminal.

    Raises InvalidOperation, also for wrong variables.
    """
    schema = schema_of(load(settings.domain_names))._schema  # noqa: SLF001 - strawberry has no public name for it
    operations = Operations(schema, settings)
    operation = operations.get(text)
    definition, cost = operations.check(operation, name, variables)
    try:
        plan = PlanExecutor(schema).plan_of(operation, definition, variables)
    except InvalidVariables as invalid:
        raise InvalidOperation(invalid.errors) from None
    if isinstance(plan, NotCompiled):
        shown = Tree(f"graphql-core runs this operation: {plan} is not compiled.")
    else:
        shown = _tree(describe(plan))
    weights = operations.weights(operation, definition, variables)
    _add_weights(shown.add(Text(f"costs {round(cost):,} of {settings.max_cost:,}", "bold")), weights)
    return shown


def _add_weights(branch: Tree, weights: Sequence[Weighed]) -> None:
    """Adds the fields that have fields below them, with what these add to the cost."""
    for one in weights:
        if one.below:
            rows = "" if one.rows is None else f"  {one.rows:,} rows"
            below = branch.add(Text.assemble((one.name, "cyan"), (f"  {round(one.weight):,}{rows}", "dim")))
            _add_weights(below, one.below)


def _tree(described: Mapping[str, Any]) -> Tree:
    root = Tree(_line(described["operation"], described["order"], "bold"), guide_style="dim")
    _add_fields(root, described["fields"])
    return root


def _line(name: str, more: str = "", style: str = "") -> Text:
    return Text.assemble((name, style), (f"  {more}" if more else "", "dim"))


def _add_fields(branch: Tree, fields: list[dict[str, Any]]) -> None:
    # All fields that need only the document share one line.
    plain = [field for field in fields if _is_plain(field)]
    if plain:
        branch.add(_line(", ".join(map(_inline, plain))))
    for field in fields:
        if _is_plain(field):
            continue
        below = branch.add(_line(field["field"], f"{field['type']}  {field['from']}", "cyan"))
        if "reads" in field:
            paths = "everything" if field["reads"] is None else ", ".join(field["reads"])
            below.add(_line("reads", paths, "green"))
        _add_fields(below, field.get("fields", []))
        for type_name, inner in field.get("on", {}).items():
            _add_fields(below.add(_line(f"on {type_name}", style="magenta")), inner)


def _is_plain(field: dict[str, Any]) -> bool:
    in_document = field["from"] == "computed" or field["from"].startswith("stored")
    return in_document and not {"reads", "on"} & field.keys() and all(map(_is_plain, field.get("fields", [])))


def _inline(field: dict[str, Any]) -> str:
    below = ", ".join(map(_inline, field.get("fields", [])))
    return f"{field['field']} {{ {below} }}" if below else str(field["field"])
