"""Describes a plan, for `portico explain` and for `extensions.plan`."""

from __future__ import annotations

from typing import Any

from graphql import get_named_type

from portico.schema.installation import PAGES
from portico.schema.kinds import kind_of, types_of

from .plan import Abstract, FieldPlan, Leaf, Object, ObjectPlan, Plan, named_shape


def describe(plan: Plan) -> dict[str, Any]:
    """Returns the tree: {operation, order, fields: [field, …]}, each field {field, type, from, reads?, fields?, on?}.

    `from` is the source of the value: `stored`, `computed`, `resolver`, or the keys of a relation. `reads` lists the
    paths to fetch of each document; null means the whole document. `on` has the fields for each possible type.
    """
    definition = plan.definition
    name = "" if definition.name is None else f" {definition.name.value}"
    return {
        "operation": f"{definition.operation.value}{name}",
        "order": "one field after the other" if plan.is_serial else "all fields at once",
        "fields": _fields(plan.root),
    }


def _fields(plan: ObjectPlan) -> list[dict[str, Any]]:
    return [_field(field) for field in plan.fields]


def _field(field: FieldPlan) -> dict[str, Any]:
    alias = "" if field.response_name == field.name else f" as {field.response_name}"
    node: dict[str, Any] = {
        "field": field.name + alias,
        "type": str(field.definition.type),
        "from": _origin(field),
        **_reads(field),
    }
    match named_shape(field.shape):
        case Object(plan=plan):
            node["fields"] = _fields(plan)
        case Abstract() as shape:
            types = field.selection.schema.get_possible_types(shape.type)
            plans = {found.name: shape.plan_of(found) for found in types}
            node["on"] = {name: _fields(plan) for name, plan in plans.items() if plan.fields}
        case Leaf():
            pass
    return node


def _origin(field: FieldPlan) -> str:
    relation = field.relation
    if relation is not None:
        return f"{relation.kind} by {relation.path}, one read a level"
    if field.path is not None:
        return f"stored at {field.path}"
    return "resolver" if field.read is None else "computed"


def _reads(field: FieldPlan) -> dict[str, Any]:
    if field.relation is not None:
        return {"reads": _paths(field.relation.projection)}
    if field.read is not None:
        return {}
    named = get_named_type(field.definition.type)
    selection = field.selection
    kind = kind_of(named)
    if kind is not None:
        return {"reads": _paths(selection.projection(types_of(selection.schema, kind), kind.discriminator))}
    if PAGES not in named.extensions:
        return {}
    paged, row_kind = named.extensions[PAGES]
    return {"reads": _paths(paged.row_projection(selection, row_kind))}


def _paths(projection: Any) -> list[str] | None:
    return None if projection is None else list(projection)
