"""The names of the last minor version that moved or went. They work until the next one, with a warning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from portico.resolvers.import_outcomes import Outcome, outcome_of

# Where each name is now.
MOVED = {
    "After": "portico.schema.After",
    "Attachments": "portico.writes.Attachments",
    "Author": "portico.schema.Author",
    "BigInt": "portico.schema.BigInt",
    "ChangeSource": "portico.store.ChangeSource",
    "CollectionSpec": "portico.store.CollectionSpec",
    "Command": "portico.jobs.Command",
    "CommandRun": "portico.jobs.Command.Run",
    "ConflictMember": "portico.Conflict",
    "Connection": "portico.schema.Connection",
    "Counter": "portico.jobs.Counter",
    "DIRTY_INDEX": "portico.writes.RollUp.INDEX",
    "Database": "portico.store.Database",
    "DeletedPayload": "portico.schema.DeletedPayload",
    "Demo": "portico.imports.Demo",
    "Document": "portico.store.Document",
    "Event": "portico.store.Event",
    "First": "portico.schema.First",
    "Gauge": "portico.jobs.Gauge",
    "Host": "portico.writes.Host",
    "Hosts": "portico.writes.Hosts",
    "ImportOption": "portico.imports.Importer.Option",
    "ImportOutcome": "portico.imports.Outcome",
    "Importer": "portico.imports.Importer",
    "InvalidInputMember": "portico.InvalidInput",
    "Invariant": "portico.jobs.Invariant",
    "Job": "portico.jobs.Job",
    "Kind": "portico.schema.Kind",
    "Listing": "portico.store.Listing",
    "Money": "portico.schema.Money",
    "MoneyInput": "portico.schema.Money.Input",
    "Node": "portico.schema.Node",
    "NotFoundMember": "portico.NotFound",
    "OwnedDocuments": "portico.writes.Attachments.Owned",
    "Page": "portico.store.Page",
    "PagedKind": "portico.schema.Paged",
    "Problem": "portico.jobs.Problem",
    "RollUp": "portico.writes.RollUp",
    "Sort": "portico.store.Sort",
    "Target": "portico.writes.Attachments.Target",
    "Timer": "portico.writes.Timer",
    "Turn": "portico.jobs.Job.Run",
    "UserError": "portico.schema.UserError",
    "as_day": "portico.imports.fields.as_day",
    "as_instant": "portico.imports.fields.as_instant",
    "as_list": "portico.imports.fields.as_list",
    "as_number": "portico.imports.fields.as_number",
    "as_object": "portico.imports.fields.object_of",
    "as_text": "portico.imports.fields.as_text",
    "as_texts": "portico.imports.fields.as_texts",
    "change_source_of_inserts": "portico.store.ChangeSource.inserts",
    "check_length": "portico.store.texts.check_length",
    "computed": "portico.schema.computed",
    "costs": "portico.schema.costs",
    "derived_id": "portico.writes.marks.derived_id",
    "derived_nonce": "portico.writes.marks.derived_nonce",
    "described": "portico.schema.described",
    "document_id": "portico.schema.Kind.document_id",
    "document_kind": "portico.schema.Kind.of",
    "document_pages": "portico.schema.Paged.of",
    "error_member": "portico.schema.member",
    "everybody": "portico.schema.Kind.everybody",
    "find_visible": "portico.schema.find_visible",
    "fold": "portico.store.texts.fold",
    "for_each": "portico.jobs.each",
    "global_id": "portico.schema.Kind.encode_id",
    "idempotency_key": "portico.schema.idempotency_key",
    "import_outcome": "portico.imports.outcome_of",
    "is_repeatable": "portico.writes.marks.is_repeatable",
    "key_in": "portico.schema.Kind.key_in",
    "load_one": "portico.schema.load_one",
    "load_related": "portico.schema.load_one",
    "mark_applied": "portico.writes.marks.mark_applied",
    "mutation": "portico.schema.mutation",
    "node_id": "portico.schema.node_id",
    "not_applied": "portico.writes.marks.not_applied",
    "optional_field": "portico.imports.fields.optional",
    "random_operation_id": "portico.writes.marks.random_operation_id",
    "reads": "portico.schema.reads",
    "related": "portico.schema.related",
    "require_caller": "portico.Context.require_caller",
    "require_slug": "portico.store.texts.require_slug",
    "require_text": "portico.store.texts.require_text",
    "required_text": "portico.imports.fields.text_at",
    "retries": "portico.writes.attempts",
    "run_in_turn": "portico.jobs.Job.in_sequence",
    "stored": "portico.schema.stored",
    "subscribe": "portico.schema.occurrences",
    "sweep": "portico.jobs.sweep",
    "trim_marks": "portico.writes.marks.trim_marks",
    "was_applied": "portico.writes.marks.was_applied",
}
# Names that went, and what they stand for.
GONE = {
    "Attachment": "portico.resolvers.attachments.Attachment",
    "BatchRead": "portico.loaders.batching.BatchRead",
    "DocumentId": "portico.resolvers.documents.DocumentId",
    "Edge": "portico.schema.connections.Edge",
    "JSON": "portico.schema.scalars.JSON",
    "Owned": "portico._deprecated.Owned",
    "PageInfo": "portico.schema.connections.PageInfo",
    "PageKey": "portico.resolvers.paging.Key",
    "ParentDocument": "portico.schema.fields.Source",
    "Projection": "portico.resolvers.documents.Projection",
    "SCHEMA_VERSION": "portico.resolvers.documents.SCHEMA_VERSION",
    "Served": "portico.resolvers.served.Served",
    "Slot": "portico._deprecated.Slot",
    "SweepFailed": "portico.resolvers.writes.sweeps.SweepFailed",
    "Wakeups": "portico.resolvers.declarations.Wakeups",
    "acquire_lease": "portico.resolvers.writes.leases.acquire",
    "announce_intent": "portico.resolvers.writes.intents.announce",
    "create_once": "portico._deprecated.create_once",
    "find_by_keys": "portico._deprecated.find_by_keys",
    "find_pages_of": "portico.resolvers.keyed.find_pages",
    "import_each": "portico._deprecated.import_each",
    "keys_of_intents": "portico.resolvers.writes.intents.announced",
    "note_in_operation": "portico.resolvers.writes.idempotency.note",
    "notes_of_operation": "portico.resolvers.writes.idempotency.notes",
    "read_by_key": "portico.loaders.declaring.by_key",
    "read_event_object": "portico.schema.subscriptions.read_shared",
    "read_pages": "portico.loaders.declaring.pages",
    "release_leases": "portico.resolvers.writes.leases.release",
    "renew_operation": "portico.resolvers.writes.idempotency.renew",
    "require_role": "portico.Context.require_caller",
    "server_time": "portico.resolvers.server_time.server_time",
    "show_object": "portico.schema.subscriptions.show_object",
    "sweep_intents": "portico.resolvers.writes.intents.sweep_left_behind",
    "withdraw_intent": "portico.resolvers.writes.intents.withdraw",
}
# What to do instead of using a name that went, if it is not only that nothing needs it.
ADVICE = {
    "Owned": "write a tuple",
    "SCHEMA_VERSION": 'write "schema_version", a field of `portico.store.Versioned`',
    "Slot": "call `context.slot`",
    "Wakeups": "call `resources.wake`",
    "create_once": "call `create_once` of the `CollectionSpec`",
    "find_by_keys": "call `find_by_keys` of the `CollectionSpec`",
    "import_each": "give the `Importer` the function, and `is_single=True`",
    "require_role": "call `context.require_caller` with the role",
    "show_object": "give the kind itself to `occurrences` or `states`",
}


class Owned(NamedTuple):
    """A collection of `OwnedDocuments`, and the paths at which they store their object's key and `_id`."""

    spec: Any
    key: str
    of: str


class Slot:
    """What a domain keeps for all fields of one operation. `make` makes it at its first use."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def of(self, context: Any) -> Any:
        """Returns the value of this operation."""
        return context.slot(self, self._make)


async def create_once(db: Any, spec: Any, document: Any) -> Any:
    """Inserts the document, or returns the one that an earlier call of the operation has inserted."""
    return await spec.create_once(db, document)


async def find_by_keys(
    db: Any, spec: Any, keys: Sequence[Any], *, path: str = "_id", projection: Any = None
) -> dict[Any, Any]:
    """Returns the documents with these keys at the path, by key."""
    found: dict[Any, Any] = await spec.find_by_keys(db, keys, path=path, projection=projection)
    return found


def import_each(import_one: Callable[..., Awaitable[Outcome]]) -> Callable[..., Awaitable[list[Outcome]]]:
    """Turns a function that stores one record into one that stores a batch."""

    async def import_all(db: Any, records: Sequence[Any], **given: Any) -> list[Outcome]:
        return [await outcome_of(import_one(db, record, **given)) for record in records]

    return import_all
