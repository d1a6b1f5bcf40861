"""What an error of a field does to its place, as the request says by `onError`.

    PROPAGATE   the nearest nullable place above a non-nullable one becomes null
    NULL        the place itself becomes null, even if its type is not nullable
    HALT        the operation ends: its data is null, with this error alone

Source: the proposal "Error behaviors" for the GraphQL specification (graphql-spec, pull request 1163).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from graphql import GraphQLError, GraphQLOutputType, located_error
from graphql.execution.collect_fields import FieldDetailsList
from graphql.execution.executor import to_nodes
from graphql.pyutils import Path

from .places import Errors, Stopped
from .reference import ReferenceExecutor
from .run import Run

OnError = Literal["PROPAGATE", "NULL", "HALT"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)
# `__service` tells it to clients.
DEFAULT: OnError = "PROPAGATE"


class _NullingRun(Run):
    propagates = False


class _FirstError(Errors):
    def add(self, error: GraphQLError, path: tuple[str | int, ...]) -> None:  # noqa: ARG002
        self.has_ended = True
        raise Stopped(error)


class _HaltingRun(Run):
    errors_of = _FirstError


class _NullingReference(ReferenceExecutor):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.error_propagation = False


class _HaltingReference(ReferenceExecutor):
    def handle_field_error(
        self,
        raw_error: Exception,
        return_type: GraphQLOutputType,  # noqa: ARG002
        field_details_list: FieldDetailsList,
        path: Path,
    ) -> None:
        raise located_error(raw_error, to_nodes(field_details_list), path.as_list())


RUNS: dict[OnError, type[Run]] = {"PROPAGATE": Run, "NULL": _NullingRun, "HALT": _HaltingRun}
REFERENCES: dict[OnError, type[ReferenceExecutor]] = {
    "PROPAGATE": ReferenceExecutor,
    "NULL": _NullingReference,
    "HALT": _HaltingReference,
}
