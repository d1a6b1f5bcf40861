"""graphql-core's executor, which leaves documents to functions that were made for the operation.

What a function cannot complete, graphql-core does: fields with resolvers of their own, and every error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Any, cast

from graphql import GraphQLOutputType, GraphQLResolveInfo, get_named_type, is_leaf_type
from graphql.execution.executor import Executor
from graphql.pyutils import Path, is_awaitable

from schema.completion import Finish, Unfinished, compiled, complete
from schema.selections import kept, selection_of

from .logs import logger


class DocumentExecutor(Executor[Any]):
    """Completes the value of a field by a function where its selection reaches only declared fields."""

    def build_resolve_info(self, *args: Any) -> GraphQLResolveInfo[Any]:
        """Strawberry's info reads the coerced variables as a plain mapping."""
        info = super().build_resolve_info(*args)
        return info._replace(variable_values=cast("Any", self.variable_values.coerced))

    def complete_value(
        self,
        return_type: GraphQLOutputType,
        field_details_list: Any,
        info: GraphQLResolveInfo[Any],
        path: Path,
        result: Any,
        position_context: Any,
    ) -> Any:
        # The same method completes the items of a list and what is inside a non-null; those come after their field.
        if return_type is info.return_type and result is not None:
            finish = self._compiled(return_type, info)
            if finish is not None:
                return self._finished(finish, return_type, field_details_list, info, path, result, position_context)
        return super().complete_value(return_type, field_details_list, info, path, result, position_context)

    def _compiled(self, return_type: GraphQLOutputType, info: GraphQLResolveInfo[Any]) -> Finish | None:
        if is_leaf_type(get_named_type(return_type)):
            return None
        found: Finish | None = kept(info, return_type, lambda: compiled(return_type, selection_of(info)))
        return found

    def _finished(self, finish: Finish, *field: Any) -> Any:
        """The field's value by the function; by graphql-core, with its errors, where the function gives up."""
        completed = None
        try:
            completed = complete(finish, field[4], field[2].context)
        except Unfinished:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it was, graphql-core meets it again and reports it
            logger().debug("completion failed", path=field[3].as_list(), exc_info=error)
        # Not in an except block: the error that graphql-core meets again has nothing to do with the first one.
        if completed is None:
            return super().complete_value(*field)
        return self._awaited(completed, *field) if is_awaitable(completed) else completed

    async def _awaited(self, completed: Awaitable[Any], *field: Any) -> Any:
        with contextlib.suppress(Exception):
            return await completed
        again = super().complete_value(*field)
        return await again if is_awaitable(again) else again
