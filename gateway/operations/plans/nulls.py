"""The errors of the values of a run, and the nulls that they cause."""

from __future__ import annotations

from typing import Any, ClassVar

from graphql import GraphQLError, GraphQLObjectType, located_error

from portico.loaders.batching import Siblings
from portico.resolvers.answer_bounds import Size
from portico.schema.kinds import collection_of_type

from .places import Errors, Place, path_of
from .plan import FieldPlan
from .running import Running


class Nulls:
    """The part of a run that makes places null. `_data` is the answer, `_running` are the jobs in flight."""

    # Whether the error of a non-nullable place makes a place above it null.
    propagates: ClassVar[bool] = True
    errors_of: ClassVar[type[Errors]] = Errors

    def __init__(self, size: Size, siblings: Siblings) -> None:
        self.errors = self.errors_of(size)
        self._data: dict[str, Any] | None = {}
        self._running = Running(siblings)
        # The type and the `_id` of the document that is completed field by field, for the log.
        self._document: tuple[GraphQLObjectType, Any] | None = None

    def _record_or_raise(self, field: FieldPlan, error: Exception, here: Place) -> None:
        """Records the error of a value and nulls its place. If the place is not nullable, raises the located error."""
        _, holder, key, is_nullable, _ = here
        if self._document is not None and not hasattr(error, "__notes__"):
            shown_as, key_of_document = self._document
            error.add_note(f"{collection_of_type(shown_as)} {key_of_document!r}")
        located = located_error(error, field.nodes, path_of(here))
        if not is_nullable and self.propagates:
            raise located
        holder[key] = None
        self.errors.add(located, tuple(path_of(here)))

    def _fail(self, field: FieldPlan, here: Place, error: Exception) -> None:
        """Records the error of an awaited value, unless another that waited for the same read has ended the run."""
        if not self.errors.has_ended:
            self._null_out(here, located_error(error, field.nodes, path_of(here)))

    def _null_out(self, here: Place | None, error: GraphQLError) -> None:
        """Records the error of an awaited value, nulls the nearest nullable place, and cancels the jobs below it."""
        failed = here
        while here is not None:
            above, holder, key, is_nullable, _ = here
            if is_nullable or not self.propagates:
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
