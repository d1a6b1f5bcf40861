"""One run of a plan.

What can be answered at once is; what must be waited for is noted with its place, and a driver waits for all of it
together: fields with resolvers, and relations, which are read a level at a time. An answer is filled in place. A null
that must spread goes up the places until it finds one that may be null.

Errors are those of the specification, with graphql-core's texts: whatever differs from its executor is a defect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterator, Sequence
from typing import Any

from graphql import ExecutionResult, GraphQLError, GraphQLResolveInfo, Undefined, located_error
from graphql.execution.values import VariableValues
from graphql.pyutils import inspect, is_awaitable, is_iterable

from portico.loaders.batching import Siblings
from portico.schema.context import Context

from .flat import completer
from .info import resolve_info
from .places import Errors, Place, path_of
from .plan import Abstract, FieldPlan, Leaf, ListOf, NonNull, Object, ObjectPlan, Plan, Shape
from .under_way import Job, Missing, Running, levels, referring
from .values import (
    RelationEntry,
    close,
    collected,
    complete_flat,
    completed_leaf,
    keys_of,
    null_error,
    object_type,
    plan_finder,
    related_value,
    runtime_type,
)

Finish = Callable[[Any], Any]
_LISTS = (list, tuple)


class Run:
    """The state of one run. `context` is what resolvers find in their info."""

    def __init__(self, plan: Plan, variables: VariableValues, context: Any, root_value: Any = None) -> None:
        self.plan = plan
        self.variables = variables
        self.context = context
        self.root_value = root_value
        self.errors = Errors()
        self._data: dict[str, Any] | None = {}
        # Those that have not begun.
        self._fields: Iterator[FieldPlan] = iter(plan.root.fields)
        self._relations: list[RelationEntry] = []
        self._waiting: list[tuple[FieldPlan, Awaitable[Any], Place, Finish | None]] = []
        self._running = Running(context.loaders.siblings if isinstance(context, Context) else Siblings())
        self._ended: asyncio.Future[None] | None = None
        self._fault: BaseException | None = None

    def start(self) -> ExecutionResult | Run:
        """Returns the result; the run itself, to be awaited for it, where anything must be waited for."""
        try:
            for field in self._fields:
                assert self._data is not None
                self._field(field, self.root_value, self._data, None)
                if self.plan.is_serial and (self._relations or self._waiting):
                    return self
        except GraphQLError as error:
            self._null_out(None, error)
        if self._data is None:
            self._drop_all()
        return self if self._relations or self._waiting else self._result()

    def __await__(self) -> Generator[Any, Any, ExecutionResult]:
        return self._finished().__await__()

    async def _finished(self) -> ExecutionResult:
        """Returns the fields of a mutation are left for here: each has ended before the next begins."""
        try:
            await self._drive()
            for field in self._fields:
                if self._data is None:
                    break
                self._field(field, self.root_value, self._data, None)
                await self._drive()
        except GraphQLError as error:
            self._null_out(None, error)
            self._drop_all()
        return self._result()

    def given_up(self, error: Exception) -> ExecutionResult:
        """Returns the result so far, once waiting for it was cancelled: what had not ended has the error."""
        for field, here in list(self._missing()):
            self._null_out(here, located_error(error, field.nodes, path_of(here)))
        self._drop_all()
        return self._result()

    def _missing(self) -> Missing:
        for job in self._running.cut_off:
            yield from job.missing()
        yield from referring(self._relations)
        yield from ((field, here) for field, _, here, _ in self._waiting)
        if self._data is not None:
            yield from referring((field, None, self._data, None) for field in self._fields)

    def _result(self) -> ExecutionResult:
        return ExecutionResult(self._data, self.errors.found or None)

    async def _drive(self) -> None:
        """Until nothing is under way. Whatever ends it early ends what is under way, too."""
        try:
            while True:
                jobs = self._jobs()
                if len(jobs) == 1 and not self._running:
                    await self._running.alone(jobs[0])
                    continue
                self._running.begin(jobs, self._end)
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
        """Returns what can begin now."""
        read = levels(self._relations, self.errors, self.context)
        self._relations = []
        jobs = [Job(self._read_related(loader, found), references=found) for loader, found in read.items()]
        return jobs + self._waits()

    def _waits(self) -> list[Job]:
        jobs = []
        for field, awaited, here, finish in self._waiting:
            if self.errors.found and self.errors.covers(here):
                close(awaited)
            else:
                jobs.append(Job(self._settle(field, awaited, here, finish), field, here, awaited=awaited))
        self._waiting = []
        return jobs

    def drop(self) -> None:
        """Lets go of what has not begun, once waiting for the run was cancelled and nobody wants its result."""
        self._drop_all()

    def _drop_all(self) -> None:
        self._relations = []
        for _, awaited, _, _ in self._waiting:
            close(awaited)
        self._waiting = []

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.ended(task)
        fault = None if task.cancelled() else task.exception()
        # Several may end before the driver wakes up for the first.
        self._fault = self._fault or fault
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # Objects and fields

    def _object(self, plan: ObjectPlan, source: Any, place: Place | None) -> dict[str, Any]:
        answer: dict[str, Any]
        if len(plan.rest) == len(plan.fields):
            answer = {}
        else:
            try:
                answer = completer(plan)(source)
            except Exception:  # noqa: BLE001 - field by field it is found again, and reported
                return self._field_by_field(plan, source, {}, place)
        for field in plan.rest:
            self._field(field, source, answer, place)
        return answer

    def _field_by_field(
        self, plan: ObjectPlan, source: Any, answer: dict[str, Any], place: Place | None
    ) -> dict[str, Any]:
        for field in plan.fields:
            self._field(field, source, answer, place)
        return answer

    def _field(self, field: FieldPlan, source: Any, answer: dict[str, Any], place: Place | None) -> None:
        """Puts the value of a field into the answer, now or later. Raises a located error where null must spread."""
        name = field.response_name
        # Its place among the keys, whenever the value comes.
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
            if field.read is not None:
                value = field.read(source)
            else:
                arguments = field.arguments.of(self.variables)
                assert field.resolve is not None
                value = field.resolve(source, self._info(field, here), **arguments)
            if is_awaitable(value):
                self._waiting.append((field, value, here, None))
            else:
                answer[name] = self._complete(field, field.shape, value, here)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is the field's error
            here = (place, answer, name, field.is_nullable, field.parent.name)
            self._failed(field, error, here)

    def _info(self, field: FieldPlan, here: Place) -> GraphQLResolveInfo[Any]:
        return resolve_info(self.plan, field, here, self.variables, self.context, self.root_value)

    # Values

    def _complete(self, field: FieldPlan, shape: Shape, value: Any, here: Place) -> Any:
        """Returns the completed value; null for now where something in it is waited for. Raises what is wrong with it."""
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
                return completed_leaf(shape, value)
            case Object(plan=plan):
                return self._checked_object(field, plan, value, here)
            case _:
                assert isinstance(shape, Abstract)
                return self._abstract(field, shape, value, here)

    def _non_null(self, field: FieldPlan, inner: Shape, value: Any, here: Place) -> Any:
        completed = self._complete(field, inner, value, here)
        if completed is None and not self._is_waited_for(here):
            raise null_error(field)
        return completed

    def _is_waited_for(self, here: Place) -> bool:
        return bool(self._waiting) and self._waiting[-1][2] is here

    def _list(self, field: FieldPlan, shape: ListOf, values: Any, here: Place) -> Any:
        if isinstance(values, AsyncIterable):
            self._waiting.append((field, collected(values), here, None))
            return None
        if not is_iterable(values):
            raise GraphQLError(f"Expected Iterable, but did not find one for field '{field.parent}.{field.name}'.")
        completed: list[Any] = []
        item_shape, is_nullable = shape.item, shape.is_nullable
        plan_of = plan_finder(item_shape, self.plan)
        for index, value in enumerate(values):
            item_place: Place = (here, completed, index, is_nullable, None)
            completed.append(None)
            try:
                if value.__class__ is dict and plan_of is not None:
                    completed[index] = self._object(plan_of(value), value, item_place)
                elif is_awaitable(value):
                    self._waiting.append((field, value, item_place, self._item_finish(field, item_shape, item_place)))
                else:
                    completed[index] = self._complete(field, item_shape, value, item_place)
            except Exception as error:  # noqa: BLE001 - whatever it was, it is the item's error
                self._failed(field, error, item_place)
        return completed

    def _item_finish(self, field: FieldPlan, shape: Shape, place: Place) -> Finish:
        return lambda value: self._complete(field, shape, value, place)

    def _abstract(self, field: FieldPlan, shape: Abstract, value: Any, here: Place) -> Any:
        if shape.type_name is not None:
            return self._object(shape.plan_of(object_type(self.plan, shape.type_name(value))), value, here)
        found = shape.resolve_type(value, self._info(field, here), shape.type)
        if not is_awaitable(found):
            return self._of_type(field, shape, found, value, here)

        def finish(type_name: Any) -> Any:
            return self._of_type(field, shape, type_name, value, here)

        self._waiting.append((field, found, here, finish))
        return None

    def _of_type(self, field: FieldPlan, shape: Abstract, type_name: Any, value: Any, here: Place) -> Any:
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
            self._waiting.append((field, is_of_type, here, finish))
            return None
        return finish(is_of_type)

    # What is waited for

    async def _settle(self, field: FieldPlan, awaited: Awaitable[Any], here: Place, finish: Finish | None) -> None:
        _, holder, key, _, _ = here
        try:
            value = await awaited
            completed = self._complete(field, field.shape, value, here) if finish is None else finish(value)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is the field's error
            self._null_out(here, located_error(error, field.nodes, path_of(here)))
        else:
            holder[key] = completed
            if self._running:
                # What it turned out to wait for begins at once, so that its reads join those of what runs beside it.
                self._running.begin(self._waits(), self._end)

    async def _read_related(self, loader: Any, entries: Sequence[RelationEntry]) -> None:
        """Reads the documents of one kind that a level refers to, and completes them.

        What cannot be a key is the error of its field alone.
        """
        keys, fit, unfit = keys_of(entries)
        for entry, wrong in unfit:
            self._unrelated(entry, wrong)
        try:
            documents = await loader.load_all(keys)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is the error of each field
            for entry in fit:
                self._unrelated(entry, error)
            return
        completed: dict[Any, dict[Any, Any] | None] = {}
        for entry in fit:
            field, found, answer, _ = entry
            assert field.relation is not None
            complete = field.relation.complete_one
            if complete not in completed:
                completed[complete] = complete_flat(field.relation, documents, keys)
            done = completed[complete]
            if done is None or not (field.relation.many or found in done):
                self._complete_related(entry, documents)
            elif field.relation.many:
                answer[field.response_name] = [one for key in found if (one := done.get(key)) is not None]
            else:
                answer[field.response_name] = done[found]

    def _unrelated(self, entry: RelationEntry, error: Exception) -> None:
        """Returns an error in place of what is related."""
        field, _, answer, place = entry
        here = (place, answer, field.response_name, field.is_nullable, field.parent.name)
        self._null_out(here, located_error(error, field.nodes, path_of(here)))

    def _complete_related(self, entry: RelationEntry, documents: Any) -> None:
        field, keys, answer, place = entry
        here = (place, answer, field.response_name, field.is_nullable, field.parent.name)
        assert field.relation is not None
        try:
            value = related_value(field, field.relation, keys, documents)
            answer[field.response_name] = self._complete(field, field.shape, value, here)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is the field's error
            self._unrelated(entry, error)

    # Errors

    def _failed(self, field: FieldPlan, error: Exception, here: Place) -> None:
        """Returns an error at once: recorded where the place may be null, else raised with its location."""
        located = located_error(error, field.nodes, path_of(here))
        if not here[3]:
            raise located
        here[1][here[2]] = None
        self.errors.add(located, tuple(path_of(here)))

    def _null_out(self, here: Place | None, error: GraphQLError) -> None:
        """Returns an error later: the nearest place that may be null becomes null, and nothing is done for it any more."""
        failed = here
        while here is not None:
            above, holder, key, is_nullable, _ = here
            if is_nullable:
                holder[key] = None
                break
            here = above
        else:
            self._data = None
        self.errors.add(error, tuple(path_of(here)))
        if here is not failed:
            for task, job in self._running.items():
                if job.here is not None and job.here is not failed and self.errors.covers(job.here):
                    task.cancel()
