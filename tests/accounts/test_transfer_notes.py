"""Notes of transfers: what others see and do while a transfer is decided and not settled, or neither."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import AutoReconnect

from portico.resolvers.accounts import accounts, transfer_jobs, transfers
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes import settlements
from portico.resolvers.writes.marks import derived_id
from portico.resolvers.writes.settlements import Attempt
from tests.accounts.support.accounts import (
    OWNER,
    assert_money,
    balances,
    deposit,
    deposit_input,
    move,
    open_account,
    transfer_input,
)
from tests.support.harness import MUTATIONS, GatewayClient, SettableClock, assert_invariants
from tests.support.ids import key_in
from tests.support.interruptions import before_every_command, database_of, interrupted
from tests.support.moments import meanwhile

ACCOUNTS = "{ viewer { accounts { id balance { amount } pendingTransfers { id } } } }"
NODES = "query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Account { balance { amount } pendingTransfers { id } } } }"
TRANSFER = "query ($id: ID!) { node(id: $id) { ... on Transfer { state source { balance { amount } } } } }"


async def notes_in(db: Database) -> list[Document]:
    return [note async for account in db["accounts"].find({}) for note in account["pending"]]


async def prepared(db: Database, mine: str, theirs: str, amount: int, clock: SettableClock) -> Attempt:
    """Leave the notes of a transfer that is not decided."""
    found = await accounts.find_stored(db, [key_in("Account", one) for one in (mine, theirs)])
    source, destination = (found[key_in("Account", one)] for one in (mine, theirs))
    attempt = Attempt(ObjectId(), transfers._parts(source["_id"], destination["_id"], amount), clock.now())
    assert await settlements.prepare(db, attempt)
    return attempt


async def test_every_read_shows_a_decided_transfer_before_it_is_settled(unsettled: GatewayClient) -> None:
    mine, theirs = await open_account(unsettled.db, 100), await open_account(unsettled.db)

    made = (await unsettled.result("transfer", transfer_input(mine, theirs, 30)))["transfer"]
    paid = await deposit(unsettled, deposit_input(theirs, 5))

    assert len(await notes_in(unsettled.db)) == 3
    assert paid["account"]["balance"]["amount"] == 35
    rows = [{"balance": {"amount": amount}, "pendingTransfers": []} for amount in (70, 35)]
    listed = (await unsettled.data(ACCOUNTS))["viewer"]["accounts"]
    assert listed == [{"id": one, **row} for one, row in zip((mine, theirs), rows, strict=True)]
    assert (await unsettled.data(NODES, {"ids": [mine, theirs]}))["nodes"] == rows
    shown = (await unsettled.data(TRANSFER, {"id": made["id"]}))["node"]
    assert shown == {"state": "SETTLED", "source": {"balance": {"amount": 70}}}
    await assert_invariants(unsettled)
    await unsettled.run_jobs("finish-transfers", seconds=6)
    assert await balances(unsettled.db, mine, theirs) == [70, 35]
    await assert_money(unsettled, 105)


async def test_money_can_be_spent_before_the_transfer_that_brought_it_is_settled(unsettled: GatewayClient) -> None:
    chain = [await open_account(unsettled.db, 100), *[await open_account(unsettled.db) for _ in range(4)]]

    for source, destination in itertools.pairwise(chain):
        await unsettled.payload("transfer", transfer_input(source, destination, 100))

    assert await balances(unsettled.db, *chain) == [0, 0, 0, 0, 100]
    refused = await unsettled.result("transfer", transfer_input(chain[0], chain[1], 1))
    assert refused["__typename"] == "InsufficientFunds"


async def test_room_is_there_before_the_transfer_that_made_it_is_settled(unsettled: GatewayClient) -> None:
    full, other = await open_account(unsettled.db, 2**53 - 1), await open_account(unsettled.db)

    await unsettled.result("transfer", transfer_input(full, other, 10))
    paid = await deposit(unsettled, deposit_input(full, 10))

    assert paid["account"]["balance"]["amount"] == 2**53 - 1


async def test_a_deposit_reads_no_record_of_what_its_process_has_decided(unsettled: GatewayClient) -> None:
    mine, theirs = await open_account(unsettled.db, 100), await open_account(unsettled.db)
    await unsettled.result("transfer", transfer_input(mine, theirs, 30))
    await deposit(unsettled, deposit_input(theirs, 5))
    unsettled.commands.clear()

    paid = await deposit(unsettled, deposit_input(theirs, 7))

    assert paid["account"]["balance"]["amount"] == 42
    assert sorted(unsettled.commands.names()) == ["find operations", "findAndModify accounts", "insert transfers"]


async def test_a_read_without_notes_sends_one_command(gateway: GatewayClient) -> None:
    await open_account(gateway.db, 100)
    gateway.commands.clear()

    await gateway.data(ACCOUNTS)

    assert gateway.commands.names() == ["find accounts"]


async def test_an_undecided_transfer_is_not_shown_and_its_money_cannot_be_spent(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    await prepared(gateway.db, mine, theirs, 30, gateway.clock)

    rows = [{"balance": {"amount": amount}, "pendingTransfers": []} for amount in (100, 0)]
    assert (await gateway.data(NODES, {"ids": [mine, theirs]}))["nodes"] == rows
    await assert_invariants(gateway)
    refused = await gateway.result("transfer", transfer_input(mine, theirs, 71))
    assert refused["__typename"] == "InsufficientFunds"


async def test_a_transfer_that_is_refused_leaves_no_note_for_a_moment(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 10), await open_account(gateway.db, owner="another")
    euros = {**transfer_input(mine, theirs, 5), "amount": {"amount": 5, "currency": "EUR"}}
    refused = [transfer_input(mine, theirs, 11), transfer_input(theirs, mine, 1), euros]
    gateway.commands.clear()

    members = [(await gateway.result("transfer", given))["__typename"] for given in refused]

    assert members == ["InsufficientFunds", "NotFound", "InvalidInput"]
    assert "update accounts" not in gateway.commands.names()


@pytest.mark.parametrize("method", ["find", "bulk_write"])
async def test_a_transfer_that_fails_leaves_no_note(gateway: GatewayClient, method: str) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)

    async def lose() -> None:
        raise AutoReconnect("the connection was lost")

    with database_of(gateway, interrupted(gateway.db, "accounts", method, lose)):
        answer = await gateway.ask(MUTATIONS["transfer"], {"input": transfer_input(mine, theirs, 30)})

    assert answer.codes
    assert await notes_in(gateway.db) == []
    await assert_money(gateway, 100)


async def test_the_next_caller_undoes_old_notes_and_their_process_cannot_decide_any_more(
    gateway: GatewayClient,
) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    given, late = transfer_input(mine, theirs, 30), transfer_input(mine, theirs, 80)

    async def others() -> None:
        gateway.clock.advance(seconds=6)
        assert (await gateway.result("transfer", late))["__typename"] == "TransferPayload"

    with meanwhile(gateway, others, "transfers", "insert_one"):
        result = await gateway.result("transfer", given)

    assert result["__typename"] == "InsufficientFunds"
    assert await balances(gateway.db, mine, theirs) == [20, 80]
    states = [record["state"] async for record in gateway.db["transfers"].find({"source": {"$exists": False}})]
    assert states == ["CANCELLED"]
    await assert_money(gateway, 100)


async def test_a_call_goes_on_after_its_attempts_are_called_off(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    left = 3

    async def call_off() -> None:
        nonlocal left
        if not left:
            return
        left -= 1
        await transfer_jobs.finish_transfers(gateway.db, now=gateway.clock.now() + timedelta(minutes=1))

    async def call(db: Database) -> Any:
        return await move(db, mine, theirs, 30, operation_id="k-called-off", now=gateway.clock.now())

    made = await call(before_every_command(gateway.db, call_off, collection="transfers", method="insert_one"))

    assert made["state"] == "SETTLED"
    assert (await call(gateway.db))["_id"] == made["_id"]
    assert await balances(gateway.db, mine, theirs) == [70, 30]
    assert await gateway.db["transfers"].count_documents({"state": "CANCELLED"}) == 3
    await assert_money(gateway, 100)


async def _left(db: Database, mine: str, theirs: str, state: str, clock: SettableClock, key: ObjectId) -> None:
    """Leave a transfer of 30 as a former version has left it in this state, with all its notes."""
    source, destination = (key_in("Account", one) for one in (mine, theirs))
    record = {
        "_id": key,
        "source": source,
        "destination": destination,
        "owners": [OWNER],
        "amount": 30,
        "currency": "USD",
        "state": state,
        "created_at": clock.now(),
        "open_since": clock.now(),
    }
    await db["transfers"].insert_one(record)
    debit = {"$inc": {"balance": -30}, "$push": {"pending": {"id": key, "amount": -30}}}
    await db["accounts"].update_one({"_id": source}, debit)
    await db["accounts"].update_one({"_id": destination}, {"$push": {"pending": {"id": key, "amount": 30}}})


@pytest.mark.parametrize(
    ("state", "end", "expected"),
    [
        ("NEW", "CANCELLED", [100, 0]),
        ("COMMITTED", "SETTLED", [70, 30]),
        ("ROLLBACK", "CANCELLED", [100, 0]),
    ],
)
async def test_the_job_finishes_what_a_former_version_has_left(
    gateway: GatewayClient, state: str, end: str, expected: list[int]
) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    left = ObjectId()
    await _left(gateway.db, mine, theirs, state, gateway.clock, left)
    await assert_invariants(gateway)
    assert (await gateway.result("transfer", transfer_input(mine, theirs, 10)))["__typename"] == "TransferPayload"

    await gateway.run_jobs("finish-transfers", seconds=6)

    record = await gateway.stored("transfers", {"_id": left})
    assert record["state"] == end
    assert await balances(gateway.db, mine, theirs) == [expected[0] - 10, expected[1] + 10]
    await assert_money(gateway, 100)


@pytest.mark.parametrize("state", ["NEW", "COMMITTED"])
async def test_a_repeated_call_ends_what_a_former_version_has_left_of_it(gateway: GatewayClient, state: str) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    first = derived_id("k-former.once", "transfer 0")
    await _left(gateway.db, mine, theirs, state, gateway.clock, first)

    for _ in range(2):
        await move(gateway.db, mine, theirs, 30, operation_id="k-former.once", now=gateway.clock.now())

    assert await balances(gateway.db, mine, theirs) == [70, 30]
    await assert_money(gateway, 100)


async def test_a_call_waits_for_a_moment_for_money_in_flight(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    attempt = await prepared(gateway.db, mine, theirs, 100, gateway.clock)

    async def undo() -> None:
        await settlements.undo(gateway.db, attempt)

    # The notes go away while the call waits.
    with meanwhile(gateway, undo, "accounts", "bulk_write", skip=2):
        result = await gateway.result("transfer", transfer_input(mine, theirs, 100))

    assert result["__typename"] == "TransferPayload"
    await assert_money(gateway, 100)


async def test_notes_that_were_called_off_are_no_reason_to_refuse_the_next_attempt(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    keys = [key_in("Account", one) for one in (mine, theirs)]
    found = await accounts.find_stored(gateway.db, keys)
    all_of_it: dict[str, Any] = {
        "source": found[keys[0]],
        "destination": found[keys[1]],
        "amount": 100,
        "operation_id": "a refund",
    }
    first = transfers.first_attempt(**all_of_it, now=clock.now())
    assert await settlements.prepare(gateway.db, first)
    made: list[Document] = []

    async def the_first_goes_on() -> None:
        made.append(await transfers.move(gateway.db, **all_of_it, now=clock.now(), begun=(first, True)))

    # Another process calls the attempt off, and leaves notes of its own before the first one goes on.
    stopping = interrupted(gateway.db, "transfers", "insert_one", the_first_goes_on, skip=1)
    made.append(await transfers.move(stopping, **all_of_it, now=clock.now() + timedelta(seconds=31)))

    assert [one["state"] for one in made] == ["SETTLED", "SETTLED"]
    assert made[0]["_id"] == made[1]["_id"]
    assert await balances(gateway.db, mine, theirs) == [0, 100]
    assert await notes_in(gateway.db) == []
