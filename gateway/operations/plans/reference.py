"""graphql-core's executor: the reference for plans, and the fallback."""

from __future__ import annotations

from typing import Any, cast

from graphql import GraphQLLeafType, GraphQLResolveInfo, OperationType, located_error
from graphql.execution.executor import Executor as CoreExecutor
from graphql.pyutils import Path

from portico.resolvers.answer_bounds import METER, AnswerTooLarge
from portico.resolvers.undecodable import is_undecodable

from .info import context_of_root_field
from .values import undecodable_error


class ReferenceExecutor(CoreExecutor[Any]):
    """graphql-core's executor, with the coerced variables as a plain mapping, as strawberry's info expects them."""

    # The context of a whole mutation. Each root field has its own.
    _whole: Any = None

    def build_resolve_info(self, *args: Any) -> GraphQLResolveInfo[Any]:
        path: Path = args[-1]
        if path.prev is None and self.operation.operation is OperationType.MUTATION:
            # The fields before it have ended.
            if self._whole is None:
                self._whole = self.context_value
            self.context_value = context_of_root_field(self._whole)
        info = super().build_resolve_info(*args)
        return info._replace(variable_values=cast("Any", self.variable_values.coerced))

    def complete_leaf_value(self, return_type: GraphQLLeafType, result: Any) -> Any:  # type: ignore[override]
        """Completes a leaf value, and counts it. graphql-core's method is static, and is called by the instance."""
        completed = super().complete_leaf_value(return_type, result)
        if is_undecodable(completed):
            raise undecodable_error(return_type)
        if (meter := METER.get()) is None:
            return completed
        meter.require()
        return meter.size.added(completed)

    def handle_field_error(self, raw_error: Exception, *args: Any) -> None:
        """Handles an error of a field, and counts it. If there are too many errors, the parent gets AnswerTooLarge."""
        super().handle_field_error(raw_error, *args)
        if (meter := METER.get()) is not None and not isinstance(raw_error, AnswerTooLarge):
            path: Path = args[-1]
            try:
                meter.size.add_error(path.as_list())
            except AnswerTooLarge as too_large:
                raise located_error(too_large, None, path.as_list()) from None
