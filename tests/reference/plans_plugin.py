"""A pytest plugin that runs graphql-core's own execution tests with compiled plans.

It replaces `execute` and `execute_sync` before the tests import them. Calls with arguments that a plan executor does
not take (middleware, hooks, abort signals, resolvers for every field) still go to graphql-core. If the variable
PLANS_REPORT names a file, the plugin writes the counts of both there.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import graphql
import graphql.execution
import pytest
from graphql import ExecutionResult, GraphQLSchema, assert_valid_schema, get_operation_ast

from portico.gateway.operations.plans.executor import PlanExecutor

_execute = graphql.execute
_OURS = ("schema", "document", "root_value", "context_value", "variable_values", "operation_name")
counts: Counter[str] = Counter()


@dataclass
class _Operation:
    document: Any
    plans: dict[Any, Any] = field(default_factory=dict)
    variables: dict[int, Any] = field(default_factory=dict)
    conditions: dict[int, tuple[str, ...]] = field(default_factory=dict)


def execute(*args: Any, **kwargs: Any) -> Any:
    given = _given(args, kwargs)
    result = None if _asks_for_more(given) else _by_plan(given)
    counts["core" if result is None else "plans"] += 1
    return _execute(*args, **kwargs) if result is None else result


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    more = {f"argument {number}": value for number, value in enumerate(args[len(_OURS) :])}
    return {**dict(zip(_OURS, args, strict=False)), **more, **kwargs}


def _asks_for_more(given: dict[str, Any]) -> bool:
    return any(value is not None and value is not False for name, value in given.items() if name not in _OURS)


def _by_plan(given: dict[str, Any]) -> ExecutionResult | Awaitable[ExecutionResult] | None:
    schema, document = given["schema"], given["document"]
    definition = get_operation_ast(document, given.get("operation_name"))
    if definition is None or not isinstance(schema, GraphQLSchema):
        return None
    assert_valid_schema(schema)
    executor = PlanExecutor(schema)
    result = executor.run(
        _Operation(document),
        definition,
        given.get("variable_values") or {},
        given.get("context_value"),
        root_value=given.get("root_value"),
    )
    return None if executor.fallbacks else result


def execute_sync(*args: Any, **kwargs: Any) -> Any:
    given = _given(args, kwargs)
    if _asks_for_more(given):
        counts["core"] += 1
        return _execute_sync(*args, **kwargs)
    result = _by_plan(given)
    counts["core" if result is None else "plans"] += 1
    if result is None:
        return _execute_sync(*args, **kwargs)
    if inspect.isawaitable(result):
        cast("Any", result).close()
        raise RuntimeError("GraphQL execution failed to complete synchronously.")
    return result


_execute_sync = graphql.execute_sync
for _module in (graphql, graphql.execution, sys.modules["graphql.graphql"]):
    for _name, _ours in (("execute", execute), ("execute_sync", execute_sync)):
        if hasattr(_module, _name):
            setattr(_module, _name, _ours)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := os.environ.get("PLANS_REPORT"):
        Path(path).write_text(
            json.dumps({**counts, "failed": session.testsfailed, "collected": session.testscollected})
        )
