"""The names of `portico.schema`: the types, fields, lists, mutations and subscriptions that clients see."""

from __future__ import annotations

from .access import require_caller
from .authors import Author
from .connections import Connection, Paged
from .context import Slot
from .errors import UserError, failure, member
from .fields import as_type, as_types, computed, costs, reads, related, stored
from .inputs import After, Before, First, Last, described, idempotency_key
from .money import Money, MoneyInput
from .mutations import DeletedPayload, mutation
from .nodes import Kind, Node, encode_id, everybody, key_in, node_id
from .reading import document_kind, document_pages, find_visible, load_one, load_related
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
    "MoneyInput",
    "Node",
    "Paged",
    "Slot",
    "UserError",
    "as_type",
    "as_types",
    "computed",
    "costs",
    "described",
    "document_kind",
    "document_pages",
    "encode_id",
    "everybody",
    "failure",
    "find_visible",
    "idempotency_key",
    "key_in",
    "load_one",
    "load_related",
    "member",
    "mutation",
    "node_id",
    "occurrences",
    "reads",
    "related",
    "require_caller",
    "states",
    "stored",
]
