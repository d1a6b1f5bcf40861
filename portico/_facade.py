"""The names that `import portico` offers. Some are renamed to the usual terms."""

from __future__ import annotations

from portico.gateway.demo.loading import Demo
from portico.gateway.imports.fields import (
    as_day,
    as_instant,
    as_list,
    as_number,
    as_text,
    as_texts,
)
from portico.gateway.imports.fields import object_of as as_object
from portico.gateway.imports.fields import optional as optional_field
from portico.gateway.imports.fields import text_at as required_text
from portico.gateway.imports.runs import Importer
from portico.gateway.imports.runs import Option as ImportOption
from portico.loaders.batching import BatchRead
from portico.loaders.declaring import by_key as read_by_key
from portico.loaders.declaring import pages as read_pages
from portico.resolvers.attachments import Attachment, Attachments, Host, Hosts, Target
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.changes import inserts as change_source_of_inserts
from portico.resolvers.configuration import HttpUrl, Secret, setting
from portico.resolvers.documents import (
    SCHEMA_VERSION,
    CollectionSpec,
    Database,
    Document,
    DocumentId,
    Projection,
    document_id,
)
from portico.resolvers.domains import (
    Command,
    CommandRun,
    Counter,
    Domain,
    Gauge,
    Job,
    Resources,
    Service,
    Turn,
    Wakeups,
)
from portico.resolvers.errors import Conflict, DomainError, InvalidInput, NotFound
from portico.resolvers.import_outcomes import Outcome as ImportOutcome
from portico.resolvers.import_outcomes import each_alone as import_each
from portico.resolvers.import_outcomes import outcome_of as import_outcome
from portico.resolvers.keyed import create_once, find_by_keys
from portico.resolvers.keyed import find_pages as find_pages_of
from portico.resolvers.owned import Owned, OwnedDocuments
from portico.resolvers.paging import Key as PageKey
from portico.resolvers.paging import Listing, Page, Sort
from portico.resolvers.problems import Invariant, Problem
from portico.resolvers.roll_ups import DIRTY_INDEX, RollUp
from portico.resolvers.served import Served
from portico.resolvers.server_time import server_time
from portico.resolvers.text import check_length, fold, require_slug, require_text
from portico.resolvers.writes.idempotency import (
    derived_id,
    derived_nonce,
    is_repeatable,
    mark_applied,
    not_applied,
    random_operation_id,
    trim_marks,
    was_applied,
)
from portico.resolvers.writes.idempotency import note as note_in_operation
from portico.resolvers.writes.idempotency import notes as notes_of_operation
from portico.resolvers.writes.idempotency import renew as renew_operation
from portico.resolvers.writes.intents import announce as announce_intent
from portico.resolvers.writes.intents import announced as keys_of_intents
from portico.resolvers.writes.intents import sweep_left_behind as sweep_intents
from portico.resolvers.writes.intents import withdraw as withdraw_intent
from portico.resolvers.writes.leases import acquire as acquire_lease
from portico.resolvers.writes.leases import release as release_leases
from portico.resolvers.writes.retries import attempts as retries
from portico.resolvers.writes.sweeps import SweepFailed, sweep
from portico.resolvers.writes.sweeps import each as for_each
from portico.resolvers.writes.sweeps import in_turn as run_in_turn
from portico.resolvers.writes.timer import Timer
from portico.schema.access import require_caller, require_role
from portico.schema.authors import Author
from portico.schema.connections import Connection, Edge, PageInfo
from portico.schema.connections import Paged as PagedKind
from portico.schema.context import Caller, Context, Info, Slot
from portico.schema.errors import Conflict as ConflictMember
from portico.schema.errors import InvalidInput as InvalidInputMember
from portico.schema.errors import NotFound as NotFoundMember
from portico.schema.errors import UserError
from portico.schema.errors import member as error_member
from portico.schema.fields import Source as ParentDocument
from portico.schema.fields import computed, costs, reads, related, stored
from portico.schema.inputs import After, First, described, idempotency_key
from portico.schema.money import Money, MoneyInput
from portico.schema.mutations import DeletedPayload, mutation
from portico.schema.nodes import Kind, Node, everybody, key_in, node_id
from portico.schema.reading import document_kind, document_pages, find_visible, global_id, load_one, load_related
from portico.schema.roles import OwnRole, Role
from portico.schema.scalars import JSON, BigInt
from portico.schema.subscriptions import occurrences as subscribe
from portico.schema.subscriptions import read_shared as read_event_object
from portico.schema.subscriptions import show_object

__all__ = [
    "DIRTY_INDEX",
    "JSON",
    "SCHEMA_VERSION",
    "After",
    "Attachment",
    "Attachments",
    "Author",
    "BatchRead",
    "BigInt",
    "Caller",
    "ChangeSource",
    "CollectionSpec",
    "Command",
    "CommandRun",
    "Conflict",
    "ConflictMember",
    "Connection",
    "Context",
    "Counter",
    "Database",
    "DeletedPayload",
    "Demo",
    "Document",
    "DocumentId",
    "Domain",
    "DomainError",
    "Edge",
    "Event",
    "First",
    "Gauge",
    "Host",
    "Hosts",
    "HttpUrl",
    "ImportOption",
    "ImportOutcome",
    "Importer",
    "Info",
    "InvalidInput",
    "InvalidInputMember",
    "Invariant",
    "Job",
    "Kind",
    "Listing",
    "Money",
    "MoneyInput",
    "Node",
    "NotFound",
    "NotFoundMember",
    "OwnRole",
    "Owned",
    "OwnedDocuments",
    "Page",
    "PageInfo",
    "PageKey",
    "PagedKind",
    "ParentDocument",
    "Problem",
    "Projection",
    "Resources",
    "Role",
    "RollUp",
    "Secret",
    "Served",
    "Service",
    "Slot",
    "Sort",
    "SweepFailed",
    "Target",
    "Timer",
    "Turn",
    "UserError",
    "Wakeups",
    "acquire_lease",
    "announce_intent",
    "as_day",
    "as_instant",
    "as_list",
    "as_number",
    "as_object",
    "as_text",
    "as_texts",
    "change_source_of_inserts",
    "check_length",
    "computed",
    "costs",
    "create_once",
    "derived_id",
    "derived_nonce",
    "described",
    "document_id",
    "document_kind",
    "document_pages",
    "error_member",
    "everybody",
    "find_by_keys",
    "find_pages_of",
    "find_visible",
    "fold",
    "for_each",
    "global_id",
    "idempotency_key",
    "import_each",
    "import_outcome",
    "is_repeatable",
    "key_in",
    "keys_of_intents",
    "load_one",
    "load_related",
    "mark_applied",
    "mutation",
    "node_id",
    "not_applied",
    "note_in_operation",
    "notes_of_operation",
    "optional_field",
    "random_operation_id",
    "read_by_key",
    "read_event_object",
    "read_pages",
    "reads",
    "related",
    "release_leases",
    "renew_operation",
    "require_caller",
    "require_role",
    "require_slug",
    "require_text",
    "required_text",
    "retries",
    "run_in_turn",
    "server_time",
    "setting",
    "show_object",
    "stored",
    "subscribe",
    "sweep",
    "sweep_intents",
    "trim_marks",
    "was_applied",
    "withdraw_intent",
]
