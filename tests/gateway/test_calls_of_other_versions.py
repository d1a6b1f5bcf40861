"""A client repeats a call at a gateway of another version, whose inputs and payloads have more fields or fewer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest
import strawberry
from strawberry.schema.config import StrawberryConfig

from portico.resolvers.accounts.transfer_records import TRANSFERS
from portico.resolvers.writes.operation_records import OPERATIONS
from portico.schema.context import Caller, Info, of_root_field
from portico.schema.installation import install
from portico.schema.mutations import mutation
from portico.schema.scalars import SCALARS
from tests.accounts.support.accounts import open_account
from tests.support.domains import DOMAINS
from tests.support.harness import GatewayClient, category_input

F = TypeVar("F", bound=Callable[..., Any])


def writes(description: str) -> Callable[[F], F]:
    return cast("Callable[[F], F]", mutation(description=description))


@strawberry.type
class Reading:
    here: bool = True


@strawberry.input(name="PricedInput")
class OldInput:
    amount: int
    idempotency_key: str | None = None


@strawberry.input(name="MoneyInput")
class Money:
    amount: int
    currency: str = "USD"


@strawberry.input(name="PricedInput")
class NewInput:
    amount: int
    note: str | None = None
    comment: strawberry.Maybe[str | None] = None
    weight: int | None = strawberry.UNSET
    times: int = 1
    tags: list[str] = strawberry.field(default_factory=list)
    fee: Money | None = None
    idempotency_key: str | None = None


@strawberry.type(name="PricedPayload")
class OldPayload:
    amount: int


@strawberry.type(name="PricedPayload")
class NewPayload:
    amount: int
    operation: str = ""


@strawberry.type
class OldVersion:
    @writes("Answers with the amount.")
    async def price(self, input: OldInput) -> OldPayload | None:  # noqa: A002 - as clients see it
        return OldPayload(amount=input.amount)


@strawberry.type
class NewVersion:
    @writes("Answers with the amount, and with its operation.")
    async def price(self, info: Info, input: NewInput) -> NewPayload | None:  # noqa: A002 - as clients see it
        return NewPayload(amount=input.amount, operation=info.context.operation_id)


async def call(gateway: GatewayClient, version: type, key: str, **given: Any) -> Any:
    schema = strawberry.Schema(query=Reading, mutation=version, types=[], config=StrawberryConfig(scalar_map=SCALARS))
    install(schema, DOMAINS.kinds, DOMAINS.pages)
    context = of_root_field(gateway.state.context(Caller("tester", frozenset()), "a request"))
    shown = "amount" if version is OldVersion else "amount operation"
    text = f"mutation ($input: PricedInput!) {{ price(input: $input) {{ {shown} }} }}"
    variables = {"input": {"amount": 1, "idempotencyKey": key, **given}}
    answer = await schema.execute(text, variable_values=variables, context_value=context)
    if answer.errors:
        return [(error.extensions or {}).get("code", str(error)) for error in answer.errors]
    return (answer.data or {})["price"]


async def test_a_newer_gateway_answers_a_call_again_that_an_older_one_has_answered(gateway: GatewayClient) -> None:
    await call(gateway, OldVersion, "key")

    again = await call(gateway, NewVersion, "key")

    assert again == {"amount": 1, "operation": ""}


async def test_an_older_gateway_answers_a_call_again_that_a_newer_one_has_answered(gateway: GatewayClient) -> None:
    await call(gateway, NewVersion, "key")

    again = await call(gateway, OldVersion, "key")

    assert again == {"amount": 1}


GIVEN: list[dict[str, Any]] = [
    {"note": ""},
    {"comment": None},
    {"weight": None},
    {"times": 2},
    {"tags": [""]},
    {"fee": {"amount": 1, "currency": "EUR"}},
]


@pytest.mark.parametrize("given", GIVEN, ids=str)
async def test_a_key_belongs_to_what_the_input_gives(gateway: GatewayClient, given: dict[str, Any]) -> None:
    await call(gateway, NewVersion, "key", **given)

    assert await call(gateway, NewVersion, "key") == ["IDEMPOTENCY_KEY_REUSED"]
    assert (await call(gateway, NewVersion, "key", **given))["amount"] == 1


async def test_a_default_is_the_same_input_whether_it_is_left_out_or_given(gateway: GatewayClient) -> None:
    first = await call(gateway, NewVersion, "key", fee={"amount": 1})

    given: dict[str, Any] = {"note": None, "times": 1, "tags": [], "fee": {"amount": 1, "currency": "USD"}}
    assert await call(gateway, NewVersion, "key", **given) == first


async def test_a_call_that_a_former_version_has_answered_is_answered_again(gateway: GatewayClient) -> None:
    """Up to November 2026, fingerprints contained the fields that were left out, too."""
    given = category_input(slug="jazz", name="Jazz", idempotencyKey="key")
    first = await gateway.result("createCategory", given)
    text = '{"input":{"description":null,"idempotency_key":"key","name":"Jazz","parent_id":null,"slug":"jazz"}}'
    former = hashlib.sha256(text.encode()).hexdigest()
    put = {"$set": {"fingerprint": former}}
    changed = await gateway.db[OPERATIONS.name].update_one({"field": "create_category"}, put)

    again = await gateway.result("createCategory", given)

    assert changed.modified_count == 1
    assert again == first


async def test_a_deposit_that_a_former_version_has_decided_is_answered_again(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, owner=gateway.subject)
    given = {"accountId": account, "amount": {"amount": 5}, "idempotencyKey": "key"}
    first = await gateway.result("deposit", given)
    text = f'{{"input":{{"account_id":"{account}","amount":{{"amount":5,"currency":"USD"}},"idempotency_key":"key"}}}}'
    called = f"deposit\0{hashlib.sha256(text.encode()).hexdigest()}"
    former = hashlib.blake2b(called.encode(), digest_size=16).hexdigest()
    changed = await gateway.db[TRANSFERS.name].update_one({"call": {"$exists": True}}, {"$set": {"call.hash": former}})
    await gateway.db[OPERATIONS.name].delete_many({})

    again = await gateway.result("deposit", given)

    assert changed.modified_count == 1
    assert again == first


async def test_a_reference_to_a_kind_that_only_a_newer_version_knows_is_left_out(gateway: GatewayClient) -> None:
    given = category_input(idempotencyKey="key")
    first = await gateway.result("createCategory", given)
    newer = {"outcome.fields.newer": {"kind": "Newer", "key": "1"}}
    changed = await gateway.db[OPERATIONS.name].update_one({"field": "create_category"}, {"$set": newer})

    again = await gateway.result("createCategory", given)

    assert changed.modified_count == 1
    assert again == first
