"""Roll-ups and owned documents: what a domain of another package stores about objects of other domains."""

from __future__ import annotations

from datetime import timedelta

from bson import ObjectId

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.attachments import Attachments, Hosts
from portico.resolvers.catalog.products import HOST
from portico.resolvers.declarations import Job, Resources
from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.roll_ups import RollUp
from tests.catalog.support.catalog import add_products, product
from tests.support.harness import SettableClock
from tests.support.interruptions import interrupted

VOTES, SUMS = CollectionSpec("votes"), CollectionSpec("vote_sums")


async def _sum(db: Database, subject: str) -> Document | None:
    votes = await db["votes"].find({"subject": subject}).to_list()
    return {"votes": len(votes)} if votes else None


VOTE_SUM = RollUp(VOTES, "subject", SUMS, compute=_sum)


async def vote(db: Database, clock: SettableClock, subject: str = "a") -> Document:
    given = {"_id": ObjectId(), "subject": subject, **VOTE_SUM.mark("op", clock.now())}
    await db["votes"].insert_one(given)
    return given


async def problems(db: Database) -> list[tuple[str, bool]]:
    return [(found.subject, found.is_open) async for found in VOTE_SUM.invariant("Sums are right.").check(db)]


async def test_a_roll_up_is_computed_again_if_another_write_overtakes_it(db: Database, clock: SettableClock) -> None:
    first = await vote(db, clock)

    async def another() -> None:
        await VOTE_SUM.settle(db, Hosts(), await vote(db, clock))

    # The other vote is settled between the reads and the write of the first.
    await VOTE_SUM.settle(interrupted(db, "vote_sums", "update_one", another), Hosts(), first)

    assert (await db["vote_sums"].find_one({"_id": "a"}) or {})["votes"] == 2
    assert await db["votes"].count_documents({"dirty": {"$exists": True}}) == 0
    assert await problems(db) == []


async def test_the_job_settles_what_a_crash_leaves(db: Database, clock: SettableClock) -> None:
    job = VOTE_SUM.job("sum-votes")
    for stop in range(2):
        given = await vote(db, clock, f"subject {stop}")
        try:
            await VOTE_SUM.settle(FaultyDatabase.around(db, stop)[1], Hosts(), given)
        except Crash:
            # Either the document is counted, or the check reports the problem as open.
            assert await problems(db) in ([], [(f"vote_sums subject {stop}", True)])

        assert (
            await job.run(
                Job.Run(db, clock.now() + Job.STALE_AFTER + timedelta(seconds=1), Resources({Hosts: Hosts()}))
            )
            == 1
        )
        assert await problems(db) == []


async def test_settling_keeps_the_mark_of_a_later_write(db: Database, clock: SettableClock) -> None:
    given = await vote(db, clock)
    later = VOTE_SUM.mark("later", clock.now())
    await db["votes"].update_one({"_id": given["_id"]}, {"$set": later})

    await VOTE_SUM.settle(db, Hosts(), given)

    assert (await db["votes"].find_one({"_id": given["_id"]}) or {})["dirty"]["by"] == "later"


async def test_a_roll_up_without_documents_is_removed(db: Database, clock: SettableClock) -> None:
    await VOTE_SUM.settle(db, Hosts(), await vote(db, clock))
    await db["votes"].delete_many({})

    assert await problems(db) == [("vote_sums a", False)]
    async for problem in VOTE_SUM.invariant("Sums are right.").check(db):
        assert await problem.mend()
    assert await db["vote_sums"].count_documents({}) == 0


async def test_the_invariant_says_how_a_roll_up_differs(db: Database, clock: SettableClock) -> None:
    async def texts() -> list[str]:
        return [found.text async for found in VOTE_SUM.invariant("Sums are right.").check(db)]

    given = await vote(db, clock)
    assert await texts() == ["it has source documents, but it is not stored"]

    await VOTE_SUM.settle(db, Hosts(), given)
    await db["vote_sums"].update_one({"_id": "a"}, {"$set": {"votes": 7}})
    assert await texts() == ["it does not match its source documents: `votes` is 7 instead of 1"]

    await db["vote_sums"].update_one({"_id": "a"}, {"$unset": {"votes": ""}})
    assert await texts() == ["it does not match its source documents: `votes` is missing instead of 1"]

    await db["votes"].delete_many({})
    assert await texts() == ["it is stored, but it has no source documents"]


async def test_documents_are_removed_with_their_object_and_not_with_the_next_object_with_its_key(db: Database) -> None:
    owned = Attachments.Owned(HOST.kind, ((VOTES, "sku", "of"),))
    await add_products(db, [product(sku="one")])
    present = (await HOST.find(db, ["one"]))["one"]["_id"]
    gone = ObjectId()
    await db["votes"].insert_many([{"sku": "one", "of": present}, {"sku": "one", "of": gone}, {"sku": "two"}])

    assert await owned.remove_gone(db, Hosts([HOST]), "one") == {gone}
    assert [found.get("of") async for found in db["votes"].find()] == [present, None]
