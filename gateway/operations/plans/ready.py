"""Compiles what a plan would otherwise compile when its first values occur."""

from __future__ import annotations

from graphql import GraphQLError

from .executor import NO_VARIABLES
from .flat import completer
from .plan import Abstract, FieldPlan, Object, ObjectPlan, Plan, named_shape


def make_ready(plan: Plan) -> None:
    """Compiles the functions of all objects of a plan, for every type that they can have."""
    left: list[ObjectPlan] = [plan.root]
    while left:
        found = left.pop()
        completer(found)
        for field in found.fields:
            _coerce_arguments(field)
            shape = named_shape(field.shape)
            if field.is_flat or (field.relation is not None and field.relation.completers is not None):
                # The function of the parent, or of the relation, completes the object, too.
                continue
            if isinstance(shape, Object):
                left.append(shape.plan)
            elif isinstance(shape, Abstract):
                left += [shape.plan_of(one) for one in plan.schema.get_possible_types(shape.type)]


def _coerce_arguments(field: FieldPlan) -> None:
    try:
        field.arguments.of(NO_VARIABLES)
    except GraphQLError:
        # It needs variables.
        return
