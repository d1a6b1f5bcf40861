"""The names of `portico.schema`: the types, fields, lists, mutations and subscriptions that clients see."""

from __future__ import annotations

from .authors import Author
from .connections import Connection, Paged
from .errors import UserError, failure, member
from .fields import as_type, computed, costs, reads, related, stored
from .inputs import After, Before, First, Last, described, idempotency_key
from .kinds import Kind, Node, node_id
from .money import Money
from .mutations import DeletedPayload, mutation
from .reading import find_visible, load_one
from .scalars import BigInt
from .subscriptions import occurrences, states

__all__ = [
    "After",
    "Author",
    "Before",
    "BigInt",
    "Connection",
    "DeletedPayload",
    "First",
    "Kind",
    "Last",
    "Money",
    "Node",
    "Paged",
    "UserError",
    "as_type",
    "computed",
    "costs",
    "described",
    "failure",
    "find_visible",
    "idempotency_key",
    "load_one",
    "member",
    "mutation",
    "node_id",
    "occurrences",
    "reads",
    "related",
    "states",
    "stored",
]
