"""Finds the objects of an answer whose stored texts need no count, because each document is shown once.

The rows of a root connection are read for it alone. If a row shows no field twice, each text is shown once, and its
bytes were counted when it was read. Everything else can show a document again: aliases, other fields of the connection,
and relations and loaders, which share what they read.
"""

from __future__ import annotations

from collections import Counter

from graphql import GraphQLObjectType

from portico.schema.fields import cost_of

from .plan import Abstract, Leaf, Object, ObjectPlan, is_plain, named_shape


def mark_fresh(root: ObjectPlan) -> None:
    """Marks the rows of root connections that need no count."""
    times = Counter(field.name for field in root.fields)
    for field in root.fields:
        connection = named_shape(field.shape)
        if times[field.name] == 1 and isinstance(connection, Object):
            rows = [one for one in connection.plan.fields if cost_of(one.definition).length == "page"]
            if [one.name for one in rows] == ["nodes"]:
                _mark(named_shape(rows[0].shape))


def _mark(row: Leaf | Object | Abstract) -> None:
    if isinstance(row, Object):
        row.plan.is_counted = not is_plain(row.plan)
    elif isinstance(row, Abstract):
        compile_for = row.compile_for

        def marked(object_type: GraphQLObjectType) -> ObjectPlan:
            plan = compile_for(object_type)
            plan.is_counted = not is_plain(plan)
            return plan

        row.compile_for = marked
