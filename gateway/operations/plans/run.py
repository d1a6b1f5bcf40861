"""Runs a plan.

1. A value that is available at once goes into the answer at once.
2. A value that must be awaited is recorded with its place: an awaitable of a resolver, or a relation.
3. `_drive` runs all recorded values concurrently, and reads the relations of one level with one read for each kind.
   A completed value goes to its place, and can record more values.
4. A null in a non-nullable place propagates to the nearest nullable place above it.
5. If the operation reads or answers with too many bytes, the run stops with one error, and drops everything.

Errors follow the specification, with graphql-core's texts: any difference from graphql-core's executor is a defect.

If a relation is selected under several names, one read fetches what all of them need. When a null spreads to a parent,
the work in flight below it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

from graphql import ExecutionResult, GraphQLError, GraphQLResolveInfo, Undefined, located_error
from graphql.execution.values import VariableValues
from graphql.pyutils import inspect, is_awaitable, is_iterable

from portico.loaders.batching import Siblings
from portico.resolvers.answer_bounds import METER, Meter
from portico.schema.context import Context

from .flat import completer
from .info import context_of_root_field, resolve_info
from .nulls import Nulls
from .places import Place, Stopped, path_of
from .plan import Abstract, FieldPlan, Leaf, ListOf, NonNull, Object, ObjectPlan, Plan, Shape
from .related import Keys, Placing, RelationEntry, by_loader, place_of, related_value
from .rows import complete_rows
from .running import Finish, Job, Missing, Pending, documents_of, places_of
from .values import close, collect_list, complete_leaf, known_plan, null_error, plan_finder, runtime_type

_LISTS = (list, tuple)


class Run(Nulls):
    """The state of one run. Resolvers get `context` in their info."""

    def __init__(self, plan: Plan, variables: VariableValues, context: Any, root_value: Any = None) -> None:
        self._meter = METER.get() or Meter()
        self._size = self._meter.size
        super().__init__(self._size, context.loaders.siblings if isinstance(context, Context) else Siblings())
        self.plan = plan
        self.variables = variables
        self.context = self._whole = context
        self.root_value = root_value
        self._record = context.record if isinstance(context, Context) else None
        # Root fields, relations and awaitables that have not started.
        self._fields: Iterator[FieldPlan] = iter(plan.root.fields)
        self._relations: list[RelationEntry] = []
        self._pending: list[Pending] = []
        self._ended: asyncio.Future[None] | None = None
        self._fault: BaseException | None = None

    def start(self) -> ExecutionResult | Run:
        """Starts the run. Returns the result; if anything must be awaited, returns the run, which is awaitable."""
        try:
            return self._started()
        except Stopped as stopped:
            return self._stop(stopped)

    def _started(self) -> ExecutionResult | Run:
        try:
            for field in self._fields:
                assert self._data is not None
                self._field(field, self.root_value, self._data, None)
                if self.plan.is_serial and (self._relations or self._pending):
                    return self
        except GraphQLError as error:
            self._null_out(None, error)
        if self._data is None:
            self.discard_pending()
        return self if self._relations or self._pending else self._result()

    def __await__(self) -> Generator[Any, Any, ExecutionResult]:
        return self._rest().__await__()

    async def _rest(self) -> ExecutionResult:
        """Finishes the run. The root fields of a mutation run here one after the other."""
        try:
            await self._drive()
            for field in self._fields:
                if self._data is None:
                    break
                self._field(field, self.root_value, self._data, None)
                await self._drive()
        except GraphQLError as error:
            return self._without_data(error)
        except Stopped as stopped:
            return self._stop(stopped)
        return self._result()

    def _without_data(self, error: GraphQLError) -> ExecutionResult:
        """Returns the result after an error of a root field that cannot be null."""
        try:
            self._null_out(None, error)
        except Stopped as stopped:
            return self._stop(stopped)
        self.discard_pending()
        return self._result()

    def _stop(self, stopped: Stopped) -> ExecutionResult:
        """Drops what the run has read and made."""
        self.discard_pending()
        if isinstance(self.context, Context):
            self.context.loaders.stop()
        self._data = None
        return ExecutionResult(None, [stopped.error])

    def timed_out(self, error: Exception) -> ExecutionResult:
        """Returns the result so far, after awaiting the run was cancelled. Fields that had not ended get the error."""
        try:
            for field, here in list(self._missing()):
                self._null_out(here, located_error(error, field.nodes, path_of(here)))
        except Stopped as stopped:
            return self._stop(stopped)
        self.discard_pending()
        return self._result()

    def _missing(self) -> Missing:
        for job in self._running.cancelled:
            yield from job.missing()
        yield from places_of(self._relations)
        yield from ((pending.field, pending.here) for pending in self._pending)
        if self._data is not None:
            yield from places_of((field, None, self._data, None) for field in self._fields)

    def _result(self) -> ExecutionResult:
        return ExecutionResult(self._data, self.errors.found or None)

    async def _drive(self) -> None:
        """Runs jobs until none are left. If it ends early, it cancels the running jobs."""
        try:
            while True:
                jobs = self._jobs()
                if len(jobs) == 1 and not self._running:
                    await self._running.run_alone(jobs[0])
                    continue
                self._running.start(jobs, self._on_done)
                if not self._running:
                    return
                self._ended = asyncio.get_running_loop().create_future()
                await self._ended
                if self._fault is not None:
                    raise self._fault
        finally:
            if self._running:
                await self._running.stop()

    def _jobs(self) -> list[Job]:
        """Returns the jobs that can start now."""
        read = by_loader(self._relations, self.errors, self.context)
        self._relations = []
        jobs = [Job(self._read_related(loader, found), relations=found) for loader, found in read.items()]
        return jobs + self._pending_jobs()

    def _pending_jobs(self) -> list[Job]:
        jobs = []
        for field, awaited, here, finish in self._pending:
            if self.errors.found and self.errors.covers(here):
                close(awaited)
            else:
                jobs.append(Job(self._settle(field, awaited, here, finish), field, here, awaited=awaited))
        self._pending = []
        return jobs

    def discard_pending(self) -> None:
        """Discards the relations and awaitables that have not started."""
        self._relations = []
        for pending in self._pending:
            close(pending.awaited)
        self._pending = []

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running.remove(task)
        fault = None if task.cancelled() else task.exception()
        # Several tasks may end before `_drive` resumes.
        self._fault = self._fault or fault
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # Objects and fields

    def _object(self, plan: ObjectPlan, source: Any, place: Place | None) -> dict[str, Any]:
        if self._meter.has_undecodable:
            # Only completing field by field checks the texts.
            return self._field_by_field(plan, source, {}, place)
        size = self._size
        before = size[0]
        try:
            answer = (plan.complete or completer(plan))(source, size)
            if size[0] > size[1]:
                size.require()
        except Exception:  # noqa: BLE001 - completing field by field raises it again, and reports it
            size[0] = before
            return self._field_by_field(plan, source, {}, place)
        for field in plan.rest:
            # Most of these fields are relations of documents, with keys. `_field` does the same for all others.
            relation = field.relation
            if relation is not None and source.__class__ is dict and (keys := relation.keys_of(source)):
                self._relations.append((field, keys, answer, place))
            else:
                self._field(field, source, answer, place)
        return answer

    def _field_by_field(
        self, plan: ObjectPlan, source: Any, answer: dict[str, Any], place: Place | None
    ) -> dict[str, Any]:
        outer = self._document
        if isinstance(source, dict) and "_id" in source:
            self._document = plan.type, source["_id"]
        try:
            for field in plan.fields:
                self._field(field, source, answer, place)
        finally:
            self._document = outer
        return answer

    def _field(self, field: FieldPlan, source: Any, answer: dict[str, Any], place: Place | None) -> None:
        """Puts the value of a field into the answer, now or later. Raises a located error if null must propagate."""
        name = field.response_name
        # Fixes the order of the keys, even if the value comes later.
        answer[name] = None
        try:
            if field.relation is not None:
                keys = field.relation.keys_of(source)
                if keys is None or (field.relation.many and keys.__class__ in _LISTS and not keys):
                    here = (place, answer, name, field.is_nullable, field.parent.name)
                    answer[name] = self._complete(field, field.shape, None if keys is None else [], here)
                else:
                    self._relations.append((field, keys, answer, place))
                return
            here = (place, answer, name, field.is_nullable, field.parent.name)
            if (read := field.read or field.own) is not None:
                value = read(source)
            else:
                arguments = field.arguments.of(self.variables)
                assert field.resolve is not None
                if place is None and self.plan.is_serial:
                    self.context = context_of_root_field(self._whole)
                value = field.resolve(source, self._info(field, here), **arguments)
            if is_awaitable(value):
                if self._record is not None:
                    value = self._record.resolving(value, field.parent.name, field.name)
                self._pending.append(Pending(field, value, here))
            else:
                answer[name] = self._complete(field, field.shape, value, here)
        except Exception as error:  # noqa: BLE001 - any exception is an error of the field
            here = (place, answer, name, field.is_nullable, field.parent.name)
            self._record_or_raise(field, error, here)

    def _info(self, field: FieldPlan, here: Place) -> GraphQLResolveInfo[Any]:
        return resolve_info(self.plan, field, here, self.variables, self.context, self.root_value)

    # Values

    def _complete(self, field: FieldPlan, shape: Shape, value: Any, here: Place) -> Any:
        """Returns the completed value, or None for a value that is pending. Raises the error of the value."""
        if isinstance(value, Exception):
            raise value
        if isinstance(shape, NonNull):
            return self._non_null(field, shape.inner, value, here)
        if value is None or value is Undefined:
            return None
        match shape:
            case ListOf():
                return self._list(field, shape, value, here)
            case Leaf():
                return self._size.added(complete_leaf(shape, value))
            case Object(plan=plan):
                return self._checked_object(field, plan, value, here)
            case _:
                assert isinstance(shape, Abstract)
                return self._abstract(field, shape, value, here)

    def _non_null(self, field: FieldPlan, inner: Shape, value: Any, here: Place) -> Any:
        completed = self._complete(field, inner, value, here)
        if completed is None and not (self._pending and self._pending[-1].here is here):
            raise null_error(field)
        return completed

    def _list(self, field: FieldPlan, shape: ListOf, values: Any, here: Place) -> Any:
        if isinstance(values, AsyncIterable):
            self._pending.append(Pending(field, collect_list(values), here))
            return None
        if not is_iterable(values):
            raise GraphQLError(f"Expected Iterable, but did not find one for field '{field.parent}.{field.name}'.")
        completed: list[Any] = []
        item_shape, is_nullable = shape.item, shape.is_nullable
        plan_of = plan_finder(item_shape, self.plan)
        if plan_of is not None and isinstance(values, list) and not self._meter.has_undecodable:
            rows = complete_rows(shape, plan_of, values, here, self._size)
            if rows is not None:
                self._relations += rows.relations
                return rows.completed
        for index, value in enumerate(values):
            item_place: Place = (here, completed, index, is_nullable, None)
            completed.append(None)
            try:
                if value.__class__ is dict and plan_of is not None:
                    completed[index] = self._object(plan_of(value), value, item_place)
                elif is_awaitable(value):
                    finish = partial(self._complete, field, item_shape, here=item_place)
                    self._pending.append(Pending(field, value, item_place, finish))
                else:
                    completed[index] = self._complete(field, item_shape, value, item_place)
            except Exception as error:  # noqa: BLE001 - any exception is an error of the item
                self._record_or_raise(field, error, item_place)
        return completed

    def _abstract(self, field: FieldPlan, shape: Abstract, value: Any, here: Place) -> Any:
        known = known_plan(self.plan, shape, value)
        if known is not None:
            return self._object(known, value, here)
        found = shape.resolve_type(value, self._info(field, here), shape.type)
        if not is_awaitable(found):
            return self._of_type(field, shape, value, here, found)
        self._pending.append(Pending(field, found, here, partial(self._of_type, field, shape, value, here)))
        return None

    def _of_type(self, field: FieldPlan, shape: Abstract, value: Any, here: Place, type_name: Any) -> Any:
        object_type = runtime_type(self.plan, field, shape, type_name, value)
        return self._checked_object(field, shape.plan_of(object_type), value, here)

    def _checked_object(self, field: FieldPlan, plan: ObjectPlan, value: Any, here: Place) -> Any:
        if plan.type.is_type_of is None:
            return self._object(plan, value, here)
        is_of_type = plan.type.is_type_of(value, self._info(field, here))

        def finish(is_one: Any) -> Any:
            if not is_one:
                raise GraphQLError(f"Expected value of type '{plan.type}' but got: {inspect(value)}.", field.nodes)
            return self._object(plan, value, here)

        if is_awaitable(is_of_type):
            self._pending.append(Pending(field, is_of_type, here, finish))
            return None
        return finish(is_of_type)

    # Awaited values

    async def _settle(self, field: FieldPlan, awaited: Awaitable[Any], here: Place, finish: Finish | None) -> None:
        _, holder, key, _, _ = here
        try:
            value = await awaited
            self._meter.require()
            completed = self._complete(field, field.shape, value, here) if finish is None else finish(value)
        except Exception as error:  # noqa: BLE001 - any exception is an error of the field
            self._fail(field, here, error)
        else:
            holder[key] = completed
            if self._running:
                # New awaitables start at once, so that their reads join a batch with those of the running jobs.
                self._running.start(self._pending_jobs(), self._on_done)

    async def _read_related(self, loader: Any, groups: Sequence[Sequence[RelationEntry]]) -> None:
        """Reads the documents of one kind for the relations of a level, and completes them.

        A value that cannot be a key is an error of its own field only.
        """
        keys = Keys(groups, has_undecodable=self._meter.has_undecodable)
        for entry, wrong in keys.unfit:
            self._relation_failed(entry, wrong)
        meter, before, is_new = self._meter, self._meter.read, loader.is_new
        try:
            documents = await documents_of(loader, keys, self._record)
            meter.require()
        except Exception as error:  # noqa: BLE001 - any exception is an error of each of the fields
            for group in keys.groups:
                for entry in group.entries:
                    self._relation_failed(entry, error)
            return
        # Documents that the loader had already, and those of a loader that reads nothing, are not in the count.
        read = meter.read - before if is_new else 0
        for entry in Placing(keys, documents, meter, read).place():
            self._complete_related(entry, documents)

    def _relation_failed(self, entry: RelationEntry, error: Exception) -> None:
        """Records the error of a relation, and nulls its place."""
        self._fail(entry[0], place_of(entry), error)

    def _complete_related(self, entry: RelationEntry, documents: Any) -> None:
        field, keys, answer, _ = entry
        assert field.relation is not None
        try:
            value = related_value(field, field.relation, keys, documents)
            answer[field.response_name] = self._complete(field, field.shape, value, place_of(entry))
        except Exception as error:  # noqa: BLE001 - any exception is an error of the field
            self._relation_failed(entry, error)
