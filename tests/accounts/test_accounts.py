"""Accounts, deposits and transfers: their effects, their visibility, and the inputs that they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema.analytics.analysts import ANALYST
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.accounts.support.accounts import (
    NOWHERE,
    OWNER,
    assert_money,
    balances,
    deposit,
    deposit_input,
    open_account,
    transfer_input,
)
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants, create_product

MOST = 2**53 - 1
ACCOUNTS = "{ viewer { accounts { id name balance { amount currency } pendingTransfers { id } } } }"
NODE = """
query ($id: ID!) {
  node(id: $id) {
    id
    ... on Account { name balance { amount } }
    ... on Transfer { state amount { amount currency } createdAt source { id name } destination { id name } }
  }
}
"""


def refusal(kind: str, path: list[str] | None = None, account: str | None = None) -> dict[str, Any]:
    facts: dict[str, dict[str, Any]] = {"InvalidInput": {"path": path}, "NotFound": {"missingId": account}}
    return {"__typename": kind, **facts.get(kind, {})}


def without_message(result: dict[str, Any]) -> dict[str, Any]:
    assert result["message"]
    return {name: value for name, value in result.items() if name != "message"}


async def test_an_account_opens_empty_and_is_listed_by_age(gateway: GatewayClient) -> None:
    first = await gateway.result("openAccount", {"name": " Savings "})
    second = await gateway.result("openAccount", {"name": "Travel", "currency": "EUR"})

    listed = (await gateway.data(ACCOUNTS))["viewer"]["accounts"]

    assert [one["account"] for one in (first, second)] == listed
    assert [(one["name"], one["balance"]) for one in listed] == [
        ("Savings", {"amount": 0, "currency": "USD"}),
        ("Travel", {"amount": 0, "currency": "EUR"}),
    ]
    assert await gateway.data(ACCOUNTS, token=gateway.token("another")) == {"viewer": {"accounts": []}}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"name": " "}, ["name"]),
        ({"name": "n" * 201}, ["name"]),
        ({"name": "N", "currency": "usd"}, ["currency"]),
        ({"name": "N", "currency": "XXQ"}, ["currency"]),
        ({"name": "N", "currency": ""}, ["currency"]),
    ],
)
async def test_an_account_needs_a_name_and_a_known_currency(
    gateway: GatewayClient, given: dict[str, Any], path: list[str]
) -> None:
    assert without_message(await gateway.result("openAccount", given)) == refusal("InvalidInput", path)
    assert await gateway.db["accounts"].count_documents({}) == 0


@pytest.mark.both_drivers
async def test_an_owner_has_at_most_a_hundred_accounts(gateway: GatewayClient) -> None:
    for _ in range(99):
        await open_account(gateway.db)
    last = {"name": "Last", "idempotencyKey": "last"}

    assert (await gateway.result("openAccount", last))["__typename"] == "AccountPayload"

    assert without_message(await gateway.result("openAccount", {"name": "Beyond"})) == refusal("InvalidInput", [])
    # The state after a call that crashed once it had opened its account.
    await gateway.db["operations"].update_one({}, {"$set": {"state": "running"}})
    gateway.clock.advance(seconds=31)
    assert (await gateway.result("openAccount", last))["__typename"] == "AccountPayload"
    assert await gateway.db["accounts"].count_documents({}) == 100


@pytest.mark.both_drivers
@pytest.mark.parametrize("mutation", ["openAccount", "transfer"])
async def test_opening_an_account_and_transferring_need_a_token(gateway: GatewayClient, mutation: str) -> None:
    given = {"name": "N"} if mutation == "openAccount" else transfer_input(NOWHERE, NOWHERE)

    answer = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=None)

    assert (answer.body["data"], answer.codes) == ({mutation: None}, ["UNAUTHENTICATED"])


async def test_a_deposit_adds_to_the_balance(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 50)

    result = await deposit(gateway, deposit_input(account, 100))

    assert result["account"]["balance"] == {"amount": 150, "currency": "USD"}
    assert result["account"]["pendingTransfers"] == []
    await assert_money(gateway, 150)


@pytest.mark.parametrize("roles", [[], [MERCHANT, ANALYST]])
async def test_only_a_service_can_deposit(gateway: GatewayClient, roles: list[Role]) -> None:
    account = await open_account(gateway.db)

    token = gateway.token(roles=roles)
    answer = await gateway.ask(MUTATIONS["deposit"], {"input": deposit_input(account)}, token=token)

    assert (answer.body["data"], answer.codes) == ({"deposit": None}, ["FORBIDDEN"])
    assert await balances(gateway.db, account) == [0]


@pytest.mark.parametrize(
    ("money", "path"),
    [
        ({"amount": 0}, ["amount", "amount"]),
        ({"amount": -1}, ["amount", "amount"]),
        ({"amount": 1, "currency": "EUR"}, ["amount", "currency"]),
        ({"amount": 1, "currency": "dollars"}, ["amount", "currency"]),
        ({"amount": MOST}, ["amount", "amount"]),
    ],
    ids=["nothing", "less than nothing", "another currency", "no currency", "more than fits"],
)
async def test_a_deposit_needs_an_amount_that_the_account_can_hold(
    gateway: GatewayClient, money: dict[str, Any], path: list[str]
) -> None:
    account = await open_account(gateway.db, 1)

    result = await deposit(gateway, deposit_input(account, **money))

    assert without_message(result) == refusal("InvalidInput", path)
    await assert_money(gateway, 1)


async def test_an_account_holds_up_to_the_largest_amount(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 1)

    result = await deposit(gateway, deposit_input(account, MOST - 1))

    assert result["account"]["balance"]["amount"] == MOST
    full = deposit_input(account, 1)
    assert [without_message(await deposit(gateway, full)) for _ in range(2)] == [
        refusal("InvalidInput", ["amount", "amount"])
    ] * 2


async def test_a_deposit_needs_an_existing_account(gateway: GatewayClient) -> None:
    product = await create_product(gateway)

    assert without_message(await deposit(gateway, deposit_input(NOWHERE))) == refusal("NotFound", account=NOWHERE)
    assert without_message(await deposit(gateway, deposit_input(product["id"]))) == refusal("NotFound")


async def test_a_transfer_moves_money_from_one_account_to_another(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db, owner="another", name="Theirs")

    result = await gateway.result("transfer", transfer_input(mine, theirs, 30))

    assert result["transfer"] == {
        "id": result["transfer"]["id"],
        "state": "SETTLED",
        "amount": {"amount": 30, "currency": "USD"},
        "source": {"id": mine, "name": "Savings"},
        "destination": {"id": theirs, "name": "Theirs"},
    }
    assert await balances(gateway.db, mine, theirs) == [70, 30]
    await assert_money(gateway, 100)


@pytest.mark.both_drivers
async def test_a_transfer_that_overflows_the_destination_is_rolled_back(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 2), await open_account(gateway.db, MOST - 1)
    given = transfer_input(mine, theirs, 2)

    refused = [await gateway.result("transfer", given) for _ in range(2)]

    assert [without_message(one) for one in refused] == [refusal("InvalidInput", ["amount", "amount"])] * 2
    await assert_money(gateway, MOST + 1)


@pytest.mark.both_drivers
async def test_a_transfer_needs_two_accounts_in_one_currency_and_a_source_of_the_caller(gateway: GatewayClient) -> None:
    mine, euros = await open_account(gateway.db, 100), await open_account(gateway.db, 100, currency="EUR")
    theirs = await open_account(gateway.db, 100, owner="another")
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("itself", transfer_input(mine, mine), refusal("InvalidInput", ["destinationId"])),
        ("not the caller's", transfer_input(theirs, mine), refusal("NotFound", account=theirs)),
        ("no source", transfer_input(NOWHERE, mine), refusal("NotFound", account=NOWHERE)),
        ("no destination", transfer_input(mine, NOWHERE), refusal("NotFound", account=NOWHERE)),
        ("no id", transfer_input(mine, "theirs"), refusal("NotFound")),
        ("the other's currency", transfer_input(mine, euros), refusal("InvalidInput", ["destinationId"])),
        ("nothing", transfer_input(mine, theirs, 0), refusal("InvalidInput", ["amount", "amount"])),
        ("less than nothing", transfer_input(mine, theirs, -5), refusal("InvalidInput", ["amount", "amount"])),
        (
            "another currency",
            transfer_input(mine, theirs, 1, currency="EUR"),
            refusal("InvalidInput", ["amount", "currency"]),
        ),
    ]
    for name, given, expected in cases:
        assert without_message(await gateway.result("transfer", given)) == expected, name

    assert await balances(gateway.db, mine, euros, theirs) == [100, 100, 100]
    assert await gateway.db["transfers"].count_documents({"source": {"$ne": None}}) == 0
    await assert_invariants(gateway)


async def test_an_account_is_visible_only_to_its_owner(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, 5)
    everybody = [gateway.token("another"), gateway.token("another", [Role.ADMIN]), None]

    seen = (await gateway.data(NODE, {"id": account}))["node"]

    assert seen == {"id": account, "name": "Savings", "balance": {"amount": 5}}
    for token in everybody:
        assert await gateway.data(NODE, {"id": account}, token=token) == {"node": None}
    # The fields that decide the visibility are read whatever the selection.
    text = "query ($ids: [ID!]!) { nodes(ids: $ids) { __typename } }"
    assert await gateway.data(text, {"ids": [account]}, token=None) == {"nodes": [None]}


async def test_a_transfer_is_visible_only_to_its_two_sides(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 9), await open_account(gateway.db, owner="another")
    made = (await gateway.result("transfer", transfer_input(mine, theirs, 9)))["transfer"]

    seen = [
        (await gateway.data(NODE, {"id": made["id"]}, token=gateway.token(who)))["node"] for who in (OWNER, "another")
    ]
    unseen = [await gateway.data(NODE, {"id": made["id"]}, token=token) for token in (gateway.token("third"), None)]

    assert [{name: one[name] for name in made} for one in seen] == [made, made]
    assert unseen == [{"node": None}] * 2


async def test_a_transfer_does_not_reveal_the_balance_of_the_other_account(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 9), await open_account(gateway.db, 1, owner="another")
    made = (await gateway.result("transfer", transfer_input(mine, theirs, 9)))["transfer"]
    text = """
    query ($id: ID!) {
      node(id: $id) {
        ... on Transfer { source { balance { amount } } destination { name pendingTransfers { id } BALANCE } }
      }
    }
    """

    token = gateway.token(roles=[MERCHANT])

    allowed = await gateway.data(text.replace("BALANCE", ""), {"id": made["id"]}, token=token)
    refused = await gateway.ask(text.replace("BALANCE", "balance { amount }"), {"id": made["id"]}, token=token)

    other = {"name": "Savings", "pendingTransfers": []}
    assert allowed == {"node": {"source": {"balance": {"amount": 0}}, "destination": other}}
    assert (refused.body["data"], refused.codes) == ({"node": None}, ["FORBIDDEN"])


async def test_a_deposit_is_not_visible_as_a_transfer(gateway: GatewayClient) -> None:
    await open_account(gateway.db, 5)
    (record,) = await gateway.db["transfers"].find({}).to_list()

    assert await gateway.data(NODE, {"id": Kind.encode_id("Transfer", record["_id"])}) == {"node": None}


async def test_a_pending_transfer_is_listed_by_both_accounts_for_its_two_owners(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 9), await open_account(gateway.db, owner="another")
    made = (await gateway.result("transfer", transfer_input(mine, theirs, 9)))["transfer"]
    (record,) = await gateway.db["transfers"].find({"source": {"$ne": None}}).to_list()
    await gateway.db["accounts"].update_many({}, {"$set": {"pending": [{"id": record["_id"], "amount": -9}]}})

    for who in (OWNER, "another"):
        (account,) = (await gateway.data(ACCOUNTS, token=gateway.token(who)))["viewer"]["accounts"]
        assert account["pendingTransfers"] == [{"id": made["id"]}]
    await gateway.db["transfers"].update_many({}, {"$set": {"owners": ["another"]}})
    (account,) = (await gateway.data(ACCOUNTS))["viewer"]["accounts"]
    assert account["pendingTransfers"] == []
