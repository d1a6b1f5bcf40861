"""The common part of all mutations: the role check, the operation id, and idempotency keys."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from secrets import token_hex
from typing import Any, Self

import strawberry
from graphql import GraphQLError
from strawberry.extensions.field_extension import FieldExtension
from strawberry.types.field import StrawberryField

from portico.resolvers import errors
from portico.resolvers.answer_bounds import unmetered
from portico.resolvers.documents import Document
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.deciding import DecidedBefore, KeyDecisions, KeyedCall
from portico.resolvers.writes.marks import random_operation_id
from portico.resolvers.writes.operation_records import OPERATIONS, OperationRecord, record_id_of
from portico.resolvers.writes.settler import Settler, send
from portico.schema.fields import as_type
from portico.schema.kinds import Kind, Node

from .context import Context, Info, Operation, core
from .errors import member_name
from .fields import Resolver, costs, kept_privately
from .files import uploads_in
from .fingerprints import fingerprint_of, require_same_files
from .nodes import find_node, shown
from .roles import Role
from .stored_answers import Restoring, record_of, record_values, references_in
from .viewer import ShowsViewer

Next = Callable[..., Awaitable[Any]]
Work = Callable[[], Awaitable[Any]]
# What a mutation costs in addition to its fields: several commands that wait for a majority, one after the other.
MUTATION_COST = 1_000
# As the categories of a product count.
_PARENTS = 10


class Write(FieldExtension):
    """Wraps a mutation: checks the role, begins the operation, and stores the answer if a key is given.

    The stored answer (`kept`) is the type of the payload with the keys of its objects, or the error with its facts.
    A repeated call reads the objects again, with its own selection. An object that the caller may not see any more is
    then missing, as it is for a new call.
    """

    def __init__(
        self,
        role: Role | None,
        *,
        settles: bool = False,
        is_decided: idempotency.IsDecided | None = None,
        decides_key: KeyDecisions | None = None,
    ) -> None:
        self.role = role
        self._settles = settles
        self._is_decided = is_decided
        self._decides_key = decides_key

    def apply(self, field: StrawberryField) -> None:
        self._field_name = str(field.python_name)
        for argument in field.arguments:
            argument.description = argument.description or "The input of the mutation."

    async def resolve_async(self, next_: Next, source: Any, info: Info, **kwargs: Any) -> Any:
        context = info.context
        if context.is_read_only:
            raise GraphQLError(
                "This gateway is read-only. Send mutations to one that is not.", extensions={"code": "READ_ONLY"}
            )
        if context.write is None:
            raise RuntimeError("A mutation needs the context of its root field: see `of_root_field`.")
        with unmetered():
            return await self._resolve(next_, context.write, source, info, kwargs)

    async def _resolve(self, next_: Next, operation: Operation, source: Any, info: Info, kwargs: dict[str, Any]) -> Any:
        context = info.context
        if self.role is not None:
            context.require_caller(self.role)
        key = _key_of(kwargs.get("input"))
        try:
            if key is None:
                operation.begin(random_operation_id(), context.now)
                return await next_(source, info, **kwargs)
            call = self._call(context, key, kwargs)
            once = self._settling if self._settles else self._once
            if self._decides_key is not None:
                once = self._deciding
            return await once(call, lambda: next_(source, info, **kwargs), operation, info, kwargs)
        except errors.OperationRefused as refused:
            raise GraphQLError(str(refused), extensions=refused.extensions) from None

    def _call(self, context: Context, key: str, kwargs: dict[str, Any]) -> idempotency.Call:
        record_id = record_id_of(context.subject, key)
        fingerprint = fingerprint_of(context, kwargs)
        former = partial(fingerprint_of, context, kwargs, with_defaults=True)
        return idempotency.Call(record_id, self._field_name, fingerprint, token_hex(16), context.process, former)

    async def _once(
        self, call: idempotency.Call, work: Work, operation: Operation, info: Info, kwargs: dict[str, Any]
    ) -> Any:
        context = info.context
        record = await idempotency.begin(context.db, call, now=context.now, kept=context.keys_kept)
        # The call may have waited for another call, for as long as a lease.
        operation.begin(record["operation"], context.clock())
        return await self._carry_out(call, record, work, info, kwargs)

    async def _settling(
        self, call: idempotency.Call, work: Work, operation: Operation, info: Info, kwargs: dict[str, Any]
    ) -> Any:
        """Claims the operation while the field prepares what it settles. It awaits the claim before it decides."""
        context = info.context
        first = idempotency.begin_first(context.db, call, now=context.now, kept=context.keys_kept)
        claim = asyncio.create_task(first)
        operation.begin_while(claim, call.operation, context.now)
        try:
            ended = await _ended(work)
        except BaseException:
            await asyncio.wait({claim})
            if claim.exception() is None:
                await idempotency.release(context.db, call.operation, owner=call.owner, now=context.now)
            raise
        if await claim:
            return await self._carry_out(call, None, ended, info, kwargs)
        return await self._take_over(call, work, operation, info, kwargs)

    async def _take_over(
        self, call: idempotency.Call, work: Work, operation: Operation, info: Info, kwargs: dict[str, Any]
    ) -> Any:
        """Goes on with the operation of an earlier call with the key, or answers with its outcome."""
        context = info.context
        record = await idempotency.begin(
            context.db, call, now=context.now, kept=context.keys_kept, is_decided=self._is_decided
        )
        operation.take_over(record["operation"], context.clock())
        return await self._carry_out(call, record, work, info, kwargs)

    async def _deciding(
        self, call: idempotency.Call, work: Work, operation: Operation, info: Info, kwargs: dict[str, Any]
    ) -> Any:
        """Carries out a call whose key is decided by a record of the domain. See `deciding`."""
        context = info.context
        keyed = KeyedCall(context.db, call, now=context.now, kept=context.keys_kept)
        operation.begin_keyed(keyed)
        try:
            return await self._decided(keyed, work, operation, info)
        except DecidedBefore as before:
            await self._store(context, keyed, before.outcome)
            return await self._answer_again(context, info, before.outcome)
        except idempotency.Superseded:
            return await self._take_over(call, work, operation, info, kwargs)
        finally:
            await keyed.close()

    async def _decided(self, keyed: KeyedCall, work: Work, operation: Operation, info: Info) -> Any:
        """Does the work. A refusal that no record of the domain has is decided by one before it is answered."""
        context, decisions = info.context, self._decides_key
        assert decisions is not None
        try:
            result = await work()
        except errors.DomainError as error:
            outcome = _refusal_record(info, error)
            await keyed.confirm()
            if keyed.is_decided or await decisions.refuse(context.db, keyed, outcome):
                await self._store(context, keyed, outcome)
                raise
            # Another call with the key was decided otherwise in the meantime.
            operation.is_repeated = True
            result = await work()
        await self._store(context, keyed, record_of(core(info).schema, result))
        return result

    async def _store(self, context: Context, keyed: KeyedCall, outcome: Document) -> None:
        """Stores the outcome of an operation that is decided, after the answer."""
        stored = {OPERATIONS.name: [keyed.record(outcome)]}
        if not context.resources.of(Settler).add(context.db, stored):
            await send(context.db, stored)

    async def _carry_out(
        self,
        call: idempotency.Call,
        record: OperationRecord | None,
        work: Work,
        info: Info,
        kwargs: dict[str, Any],
    ) -> Any:
        """Does the work of an operation that the call has claimed, or answers with the outcome that there is.

        Args:     record: of the operation; None if this is the first call with the key.
        """
        context = info.context
        if record is not None and record["state"] == "done":
            await require_same_files(kwargs, record)
            return await self._answer_again(context, info, record["outcome"])
        refusal: errors.DomainError | None = None
        try:
            try:
                result = await self._result(call, record, work, info, kwargs)
                outcome = record_of(core(info).schema, result)
                # The record that decides shows the outcome to a repeated call.
                is_shown = record is None and self._is_decided is not None
                kept = outcome if is_shown else await self._keep(context, outcome)
            except errors.DomainError as error:
                refusal, outcome = error, _refusal_record(info, error)
                kept = await idempotency.finish(context.db, context.operation_id, outcome=outcome, owner=call.owner)
        except BaseException:
            # If the outcome is stored nevertheless, this releases nothing.
            await idempotency.release(context.db, context.operation_id, owner=call.owner, now=context.now)
            raise
        if kept is not outcome:
            # In the meantime, another call with the key took over and finished.
            return await self._answer_again(context, info, kept)
        if refusal is not None:
            raise refusal
        return result

    async def _result(
        self, call: idempotency.Call, record: OperationRecord | None, work: Work, info: Info, kwargs: dict[str, Any]
    ) -> Any:
        """Does the work. If the call has taken the operation over and is refused, does it once more.

        The earlier call may have gone on meanwhile, and may be the reason: it has deleted the object, or has taken the
        last unit. The second time, the steps find what it has done. A file can be read only once.
        """
        is_first = record is None or record["operation"] == call.operation
        try:
            return await work()
        except errors.DomainError as error:
            if is_first or _shown_as(info, error) is None or any(uploads_in(kwargs)):
                raise
        return await work()

    async def _keep(self, context: Context, outcome: Document) -> Document:
        """Stores the outcome. If the mutation settles, does so after the answer, and a repeated call waits until then.

        If it is never stored, a repeated call carries the operation out again, and finds what was decided.
        """
        if self._settles:
            done = {OPERATIONS.name: [idempotency.finishing(context.operation_id, outcome)]}
            if context.resources.of(Settler).add(context.db, done):
                return outcome
        return await idempotency.finish(context.db, context.operation_id, outcome=outcome)

    async def _answer_again(self, context: Context, info: Info, outcome: Document) -> Any:
        error = outcome.get("error")
        fields = outcome["fields"] if error is None else error["facts"]
        documents = await self._documents_of(context, list(fields.values()))
        restoring = Restoring(info.schema, context.served.kinds, documents, errors.NotFound)
        if error is not None:
            raise errors.error_type(error["type"]).from_record(restoring.values(fields))
        return restoring.value(outcome)

    async def _documents_of(self, context: Context, record: list[Any]) -> dict[tuple[str, str], Document]:
        """Returns the current objects that a stored answer references, without those that the caller may not see."""
        kinds: Mapping[str, Kind] = context.served.kinds
        keys: dict[str, dict[str, Any]] = {}
        # A newer gateway may have stored references to kinds that this one does not know.
        known = [(name, text) for name, text in references_in(record) if name in kinds]
        for name, text in known:
            keys.setdefault(name, {})[text] = kinds[name].parse(text)
        found = {}
        for name, wanted in keys.items():
            kind = kinds[name]
            documents = await kind.read(context.db, None)(list(wanted.values()))
            for text, key in wanted.items():
                document = documents.get(key)
                if document is None and kind.find_gone is not None:
                    document = await kind.find_gone(context.db, key, context.operation_id)
                # A caller with the role of the mutation sees the objects that it writes, whoever owns them.
                if document is not None and self.role is None:
                    document = await shown(context, kind, document)
                if document is not None:
                    found[name, text] = document
        return found


async def _ended(work: Work) -> Work:
    """Does the work. Returns a function that returns its result again, or raises its refusal."""
    try:
        result = await work()
    except (errors.DomainError, idempotency.Superseded) as error:
        refusal = error
    else:
        return lambda: _resolved(result)

    async def refuse() -> Any:
        raise refusal

    return refuse


async def _resolved(result: Any) -> Any:
    return result


def mutation(
    *,
    role: Role | None = None,
    description: str,
    weights: Mapping[str, float] | None = None,
    settles: bool = False,
    is_decided: idempotency.IsDecided | None = None,
    decides_key: KeyDecisions | None = None,
) -> Callable[[Resolver], Resolver]:
    """Returns a mutation field for callers with this role; with None, for all callers.

    A mutation that `settles` passes `context.answering` to its write, and is answered as soon as it is decided. If a
    record of the domain decides it, `is_decided` looks for that record by the operation id. Then the outcome of the
    first call is not stored, and the write must return it again to whoever repeats its steps. If that record is one of
    `decides_key`, it decides the idempotency key, too, and no record of the operation is stored before: see `deciding`.
    The write then passes `context.answering` to what inserts the record.
    Each use of it costs 1,000, and what the `weights` of the lists in its input add: see `costs`.
    Raises TypeError for a role that no caller could have.
    """
    if role is not None and not isinstance(role, Role):
        raise TypeError(f"`role` of a mutation must be a `portico.Role`; got {role!r}.")
    declared = costs(extra=MUTATION_COST, weights=weights)
    write = Write(role, settles=settles, is_decided=is_decided, decides_key=decides_key)
    field: Callable[[Resolver], Resolver] = strawberry.mutation(
        description=description, extensions=[write], metadata=declared
    )
    return field


def _key_of(given: Any) -> str | None:
    key: str | None = getattr(given, "idempotency_key", None)
    if key is not None and not 1 <= len(key) <= 255:  # noqa: PLR2004
        raise GraphQLError(
            f"`idempotencyKey` must have 1 to 255 characters; got {len(key):,}.",
            extensions={"code": "BAD_USER_INPUT", "argument": ["input", "idempotencyKey"]},
        )
    return key


def _shown_as(info: Info, error: errors.DomainError) -> str | None:
    """Returns the type of an error that is the answer. None if a retry may succeed, or no type represents it."""
    name = member_name(type(error))
    return name if name in core(info).schema.type_map and not error.is_retryable else None


def _refusal_record(info: Info, error: errors.DomainError) -> Document:
    """Returns the stored form of an error that is the answer.

    Raises the error itself if it is no answer: see `_shown_as`.
    """
    shown_as = _shown_as(info, error)
    if shown_as is None:
        raise error
    facts = record_values(core(info).schema, shown_as, error.to_record())
    return {"error": {"type": errors.name_of(type(error)), "facts": facts}}


@strawberry.type(description="The object is deleted.")
class DeletedPayload(ShowsViewer):
    deleted_id: strawberry.ID = strawberry.field(description="The `id` of the deleted object.")
    listed: strawberry.Private[Document | None] = kept_privately()

    @classmethod
    def of(cls, deleted_id: strawberry.ID, kind: str, keys: Iterable[object]) -> Self:
        """Returns the payload of an object that objects of this kind, with these keys, have listed."""
        return cls(deleted_id=deleted_id, listed={"by": [Kind.encode_id(kind, key) for key in dict.fromkeys(keys)]})

    @strawberry.field(
        metadata=costs(length=_PARENTS),
        description="The objects that have listed the deleted object, as they are now: the parent of a category or of "
        "content, the categories of a product, and the members on whose walls a post was.",
    )
    async def parents(self, info: Info) -> list[Node]:
        ids = () if self.listed is None else self.listed["by"]
        found = await asyncio.gather(*(find_node(core(info), global_id) for global_id in ids))
        return as_type(list[Node], [parent for parent in found if parent is not None])
