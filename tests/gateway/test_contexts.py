"""The context of an operation never changes; each root field of a mutation has its own, with one operation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import FrozenInstanceError, fields, replace

import pytest
import strawberry

from portico import Domain, schema
from portico.gateway.clock import SystemClock
from portico.gateway.domains import schema_of
from portico.gateway.settings import Settings
from portico.schema.context import Context, Info, Operation
from tests.support.harness import GatewayClient, new_key, running
from tests.support.library import served


@strawberry.type(description="What a field has seen.")
class SeenPayload:
    name: str = strawberry.field(description="The field.")

    @strawberry.field(description="The id of the operation, below the root.")  # type: ignore[untyped-decorator]
    async def operation_id(self, info: Info) -> str:
        contexts.append(info.context)
        return info.context.operation_id


@strawberry.input(description="Which field.")
class SeeInput:
    name: str = strawberry.field(description="The field.")
    idempotency_key: str | None = schema.idempotency_key()


contexts: list[Context] = []


@strawberry.type
class SeeMutation:
    @schema.mutation(description="Remembers its context.")
    async def see(self, info: Info, input: SeeInput) -> SeenPayload | None:  # noqa: A002 - the name that clients see
        contexts.append(info.context)
        return SeenPayload(name=input.name)


@strawberry.type
class SeeQuery:
    @strawberry.field(description="Remembers its context.")  # type: ignore[untyped-decorator]
    async def seen(self, info: Info) -> bool:
        contexts.append(info.context)
        return True


DOMAIN = Domain(name="seeing", about="Contexts.", mutations=(SeeMutation,), queries=(SeeQuery,))
TWICE = """mutation ($first: SeeInput!, $second: SeeInput!) {
  first: see(input: $first) { operationId } second: see(input: $second) { operationId }
}"""


@pytest.fixture(params=["compiled", "reference"])
async def seeing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[GatewayClient]:
    contexts.clear()
    with served(monkeypatch, "seeing", __name__):
        async with running(replace(settings, domains="seeing", executor=request.param)) as gateway:
            yield gateway


async def test_each_root_field_of_a_mutation_has_one_context_with_its_operation(seeing: GatewayClient) -> None:
    given = {name: {"name": name, "idempotencyKey": new_key()} for name in ("first", "second")}

    data = await seeing.data(TWICE, given)

    first, below_first, second, below_second = contexts
    assert (below_first, below_second) == (first, second)
    assert below_first is first
    assert below_second is second
    assert [data[name]["operationId"] for name in ("first", "second")] == [first.operation_id, second.operation_id]
    assert first.operation_id != second.operation_id
    assert first.started <= first.now <= second.now
    assert first.loaders is not second.loaders
    assert first.seen is not second.seen


async def test_a_repeated_mutation_has_the_same_operation_at_another_time(seeing: GatewayClient) -> None:
    given = {"name": "again", "idempotencyKey": new_key()}

    await seeing.data(TWICE, {"first": given, "second": given})

    # The second field gets the stored answer, so only the field below it has run.
    first, _, again = contexts
    assert again.operation_id == first.operation_id
    assert again.now > first.now


async def test_the_fields_of_a_query_share_a_context_without_an_operation(seeing: GatewayClient) -> None:
    await seeing.data("{ seen again: seen }")

    assert contexts[0] is contexts[1]
    assert contexts[0].write is None
    assert contexts[0].now == contexts[0].started
    with pytest.raises(RuntimeError, match="declared with `mutation`"):
        _ = contexts[0].operation_id


async def test_a_context_cannot_be_changed(gateway: GatewayClient) -> None:
    context = gateway.state.context(None, "a request")

    for field in fields(context):
        with pytest.raises(FrozenInstanceError):
            setattr(context, field.name, None)


async def test_two_operations_share_nothing_that_they_have_read(gateway: GatewayClient) -> None:
    first, second = [gateway.state.context(None, "a request") for _ in range(2)]

    kept = [name for name, value in vars(first).items() if isinstance(value, dict | set | list)]
    assert kept
    assert [name for name in kept if name != "selections" and vars(first)[name] is vars(second)[name]] == []
    assert first.loaders is not second.loaders


def test_an_operation_begins_once() -> None:
    now = SystemClock().now()
    operation = Operation(now)
    with pytest.raises(RuntimeError, match="declared with `mutation`"):
        _ = operation.id

    operation.begin("an id", now)

    assert (operation.id, operation.now) == ("an id", now)
    with pytest.raises(RuntimeError, match="begins once"):
        operation.begin("another id", now)


async def test_a_mutation_without_the_context_of_its_root_field_is_not_run(seeing: GatewayClient) -> None:
    context = seeing.state.context(None, "a request")

    answer = await schema_of(seeing.domains).execute(
        'mutation { see(input: {name: "a"}) { name } }', context_value=context
    )

    assert answer.errors is not None
    assert isinstance(answer.errors[0].original_error, RuntimeError)
    assert contexts == []
