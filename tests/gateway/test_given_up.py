"""An operation that times out returns what it has: unfinished fields are null, with an error at their paths.

One timer is for the deadlines of all operations.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from dataclasses import replace
from typing import Any, cast

import pytest
from graphql import GraphQLSchema, build_schema, parse

from portico.gateway.deadlines import PRECISION_SECONDS, Deadlines
from portico.gateway.operations.documents import Operation
from portico.gateway.operations.plans.executor import PlanExecutor
from portico.gateway.operations.plans.run import Run
from portico.gateway.settings import ExecutorName, Settings
from portico.resolvers.catalog import products
from tests.support.harness import create_category, running
from tests.support.interruptions import database_of, interrupted

SCHEMA = build_schema("""
    type Query { quick: Int slow: Int item: Item late: Item items: [Item!] }
    type Mutation { first: Int second: Int third: Int }
    type Item { name: String slow: Int needed: Int! items: [Item] }
""")


async def _slow(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(30)


async def _late(_info: Any) -> Any:
    await asyncio.sleep(0)
    return ITEM


def run_of(schema: GraphQLSchema, text: str, root: dict[str, Any]) -> Run:
    operation = Operation(parse(text))
    run = PlanExecutor(schema).run(operation, operation.definition(None), {}, None, root)
    assert isinstance(run, Run)
    return run


async def until_it_only_waits(run: Run) -> None:
    """Lets everything in the run happen that needs no time, and then ends it as if it had timed out."""

    async def expire() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        deadline.reschedule(0)

    async with asyncio.timeout(None) as deadline:
        expiring = asyncio.create_task(expire())
        await run
    await expiring


ITEM: dict[str, Any] = {
    "name": "one",
    "slow": _slow,
    "needed": _slow,
    "items": lambda _info: [{"name": "two"}, _slow()],
}
ROOT: dict[str, Any] = {
    "quick": 1,
    "slow": _slow,
    "item": ITEM,
    "late": _late,
    "items": lambda _info: [ITEM, _slow()],
    "first": 1,
    "second": _slow,
    "third": 3,
}


@pytest.mark.parametrize(
    ("text", "data", "paths"),
    [
        ("{ slow }", {"slow": None}, [["slow"]]),
        ("{ slow quick other: slow }", {"slow": None, "quick": 1, "other": None}, [["slow"], ["other"]]),
        ("{ item { slow name } quick }", {"item": {"slow": None, "name": "one"}, "quick": 1}, [["item", "slow"]]),
        ("{ item { name needed } quick }", {"item": None, "quick": 1}, [["item", "needed"]]),
        ("{ item { needed other: needed } }", {"item": None}, [["item", "needed"]]),
        ("{ late { slow } }", {"late": {"slow": None}}, [["late", "slow"]]),
        ("{ late { needed } quick }", {"late": None, "quick": 1}, [["late", "needed"]]),
        ("{ item { items { name } } }", {"item": {"items": [{"name": "two"}, None]}}, [["item", "items", 1]]),
        ("{ items { name } quick }", {"items": None, "quick": 1}, [["items", 1]]),
        ("mutation { first second third }", {"first": 1, "second": None, "third": None}, [["second"], ["third"]]),
    ],
)
async def test_unfinished_fields_are_null_with_an_error_at_their_paths(
    text: str, data: dict[str, Any], paths: list[list[str | int]]
) -> None:
    run = run_of(SCHEMA, text, ROOT)

    with pytest.raises(TimeoutError) as late:
        await until_it_only_waits(run)
    result = run.timed_out(late.value)

    assert result.data == data
    assert [error.path for error in result.errors or ()] == paths
    assert {error.original_error for error in result.errors or ()} == {late.value}


CALLS = " ".join(f'{one}: createCategory(input: {{ name: "{one}", slug: "{one}" }}) {{ __typename }}' for one in "abc")
MUTATION = f"mutation {{ {CALLS} }}"


@pytest.mark.parametrize("executor", ["compiled", "reference"])
async def test_an_operation_that_times_out_returns_what_it_did(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, executor: ExecutorName
) -> None:
    monkeypatch.setattr(products, "upgrade_read", _slow)
    async with running(replace(settings, operation_seconds=1, executor=executor)) as gateway:
        await create_category(gateway, name="Jazz", slug="jazz")
        with database_of(gateway, interrupted(gateway.db, "categories", "insert_one", _slow, skip=1)):
            query, mutation = await asyncio.gather(
                gateway.ask('{ category(slug: "jazz") { name } product(sku: "a") { title } }'), gateway.ask(MUTATION)
            )
        assert await gateway.db["categories"].distinct("slug") == ["a", "jazz"]

    if executor == "reference":
        assert [query.body["data"], mutation.body["data"]] == [None, None]
        assert [query.codes, mutation.codes] == [["TIMEOUT"], ["TIMEOUT"]]
        return
    assert query.body["data"] == {"category": {"name": "Jazz"}, "product": None}
    assert mutation.body["data"] == {"a": {"__typename": "CategoryPayload"}, "b": None, "c": None}
    assert [error["path"] for error in query.body["errors"] + mutation.body["errors"]] == [["product"], ["b"], ["c"]]
    assert query.codes + mutation.codes == ["TIMEOUT"] * 3


NEEDY = build_schema("type Query { item: Item } type Item { bad: Int! slow: Int other: Int more: [Int] }")


async def _bad(_info: Any) -> Any:
    raise ValueError("It has failed.")


@pytest.mark.parametrize("text", ["{ item { bad slow other more } }", "{ item { slow other more } }"])
async def test_cancelling_an_operation_leaves_no_coroutine_unawaited(text: str) -> None:
    root = {"item": {"bad": _bad, "slow": _slow, "other": _slow, "more": lambda _info: [_slow(), _slow()]}}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = run_of(NEEDY, text, root)
        waiting = asyncio.ensure_future(_awaited(run))
        asyncio.get_running_loop().call_soon(waiting.cancel)
        await asyncio.wait({waiting})
        del run, waiting
        gc.collect()

    assert [str(warning.message) for warning in caught] == []


async def _awaited(run: Run) -> Any:
    try:
        return await run
    except asyncio.CancelledError:
        run.discard_pending()
        raise


class _Entry:
    def __init__(self) -> None:
        self.expired = 0

    def expire(self) -> None:
        self.expired += 1


@pytest.fixture
def deadlines() -> Deadlines:
    return Deadlines()


async def test_an_entry_expires_once_at_its_deadline_and_not_before(deadlines: Deadlines) -> None:
    early, late = _Entry(), _Entry()
    deadlines.add(early, 0.01)
    deadlines.add(late, 60)

    await asyncio.sleep(4 * PRECISION_SECONDS)

    assert (early.expired, late.expired) == (1, 0)


async def test_a_removed_entry_does_not_expire_and_may_be_removed_again(deadlines: Deadlines) -> None:
    entry = _Entry()
    deadlines.add(entry, 0.01)
    deadlines.remove(entry)
    deadlines.remove(entry)

    await asyncio.sleep(4 * PRECISION_SECONDS)

    assert entry.expired == 0


async def test_an_entry_that_comes_after_the_timer_has_stopped_expires_too(deadlines: Deadlines) -> None:
    entry = _Entry()
    deadlines.add(_Entry(), 0.0)
    await asyncio.sleep(4 * PRECISION_SECONDS)

    deadlines.add(entry, 0.0)
    await asyncio.sleep(4 * PRECISION_SECONDS)

    assert entry.expired == 1


def test_deadlines_hold_in_a_later_event_loop(deadlines: Deadlines) -> None:
    entry = _Entry()

    async def begin() -> None:
        deadlines.add(_Entry(), 60)

    async def expire() -> None:
        deadlines.add(entry, 0.0)
        await asyncio.sleep(4 * PRECISION_SECONDS)

    asyncio.run(begin())
    asyncio.run(expire())

    assert entry.expired == 1


def is_cancelled() -> bool:
    return bool(cast("asyncio.Task[Any]", asyncio.current_task()).cancelling())


async def test_a_limit_raises_timeout_error_and_leaves_no_cancellation(deadlines: Deadlines) -> None:
    with pytest.raises(TimeoutError), deadlines.limit(0.01):
        await asyncio.sleep(60)

    assert not is_cancelled()


async def test_a_limit_that_is_not_reached_changes_nothing(deadlines: Deadlines) -> None:
    with deadlines.limit(10 * PRECISION_SECONDS):
        await asyncio.sleep(0)

    # The deadline passes without a cancellation.
    await asyncio.sleep(14 * PRECISION_SECONDS)
    assert not is_cancelled()


async def test_a_limit_passes_on_a_cancellation_from_elsewhere(deadlines: Deadlines) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        with deadlines.limit(60):
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_beside_an_expired_limit_is_not_lost(deadlines: Deadlines) -> None:
    async def work() -> None:
        with deadlines.limit(0.01):
            try:
                await asyncio.sleep(60)
            finally:
                task.cancel()

    task = asyncio.create_task(work())

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_of_two_limits_ends_only_its_own_block(deadlines: Deadlines) -> None:
    with deadlines.limit(60):
        with pytest.raises(TimeoutError), deadlines.limit(0.01):
            await asyncio.sleep(60)
        assert not is_cancelled()
