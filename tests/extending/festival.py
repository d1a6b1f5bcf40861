"""A domain for tests: passes for several concerts, each of which takes a place in all of them or in none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, NotRequired

import strawberry
from bson import ObjectId
from pymongo import IndexModel

from portico import Context, Domain, DomainError, Info, InvalidInput, NotFound
from portico.jobs import Invariant, Job, Problem
from portico.schema import Kind, Node, as_type, failure, idempotency_key, mutation, node_id, stored
from portico.store import CollectionSpec, Database, TypedDict
from portico.writes import Noted

MOST = 10


class ConcertDocument(TypedDict):
    """A concert."""

    _id: ObjectId
    places: int
    # Those that no pass has taken, as if every pass under way were sold.
    free: int
    # Passes under way.
    notes: list[dict[str, Any]]


class PassDocument(TypedDict):
    """A pass. It is sold if it has a `key`; a record without one was refused or called off."""

    _id: ObjectId
    key: NotRequired[str]
    refused: NotRequired[bool]
    owner: NotRequired[str]
    concerts: NotRequired[list[ObjectId]]
    looks: NotRequired[int]
    call: NotRequired[dict[str, Any]]


CONCERTS = CollectionSpec(
    "concerts", document=ConcertDocument, indexes=[IndexModel([("notes.at", 1)])], shard_key={"_id": "hashed"}
)
PASSES = CollectionSpec(
    "passes", document=PassDocument, indexes=[IndexModel([("concerts", 1)])], shard_key={"_id": "hashed"}
)

PLACES = Noted(CONCERTS, "notes", PASSES, given=lambda _note: {}, back=lambda _note: {"free": 1})


@failure("One of the concerts is sold out.")
class SoldOut(DomainError):
    """A concert has no place left."""


async def buy_pass(context: Context, concerts: list[ObjectId], owner: str) -> PassDocument:
    """Takes a place in each concert. Raises SoldOut: then it takes none."""
    parts = [PLACES.part(key, allowed={"free": {"$gte": 1}}, taken={"free": -1}) for key in concerts]
    facts = {"owner": owner, "concerts": concerts}
    sold: Any = await PLACES.settle_once(context.db, parts, facts, **context.operation, answering=context.answering)
    if sold is None:
        raise SoldOut("One of the concerts is sold out. Leave it out.")
    bought: PassDocument = sold
    return bought


async def finish_passes(run: Job.Run) -> int:
    """Gives back the places of passes that were not sold, after a crash."""
    return await PLACES.finish_stale(run.db, now=run.now)


async def find_oversold(db: Database) -> AsyncIterator[Problem]:
    async for concert in CONCERTS.of(db).find({}):
        await PLACES.shown(db, [concert])
        sold = await db[PASSES.name].count_documents({"concerts": concert["_id"], "key": {"$exists": True}})
        if concert["free"] + sold != concert["places"]:
            yield Problem(f"concert {concert['_id']}", "its passes and its free places do not add up")


async def find_concerts(db: Database, keys: list[ObjectId]) -> list[ConcertDocument]:
    """Returns the concerts, with exactly the passes that are sold. Raises NotFound."""
    found = await CONCERTS.of(db).find({"_id": {"$in": keys}}).to_list()
    missing = set(keys) - {concert["_id"] for concert in found}
    if missing:
        raise NotFound("Concert", str(missing.pop()))
    await PLACES.shown(db, found)
    return found


async def as_decided(context: Context, concerts: Sequence[ConcertDocument]) -> Sequence[ConcertDocument]:
    """Shows each concert with exactly the passes that are sold."""
    await PLACES.shown(context.db, concerts)
    return concerts


CONCERT = Kind.of("Concert", CONCERTS, reads=("notes",), visible_to=Kind.everybody, shown_to=as_decided)
PASS = Kind.of(
    "Pass",
    PASSES,
    reads=("key", "owner"),
    visible_to=lambda sold, context: "key" in sold and sold["owner"] == context.subject,
)


@strawberry.type(description="A concert.")
class Concert(Node):
    id: strawberry.ID = node_id("Concert", "_id")
    places: int = stored(description="How many places it has.")
    free: int = stored(description="How many are free.")


@strawberry.type(description="A pass for several concerts.")
class Pass(Node):
    id: strawberry.ID = node_id("Pass", "_id")


@strawberry.input(description="Concerts to visit.")
class BuyPassInput:
    concert_ids: list[strawberry.ID] = strawberry.field(description="The concerts, at most 10.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The pass.")
class PassPayload:
    sold: Pass = strawberry.field(description="The pass.")
    concerts: list[Concert] = strawberry.field(description="Its concerts.")


BuyPassResult = Annotated[
    PassPayload | SoldOut | NotFound | InvalidInput,
    strawberry.union("BuyPassResult", description="The result of buying a pass."),
]


@strawberry.type
class FestivalMutation:
    @mutation(settles=True, decides_key=PLACES.decides_key, description="Buys a pass for several concerts.")
    async def buy_pass(self, info: Info, input: BuyPassInput) -> BuyPassResult | None:
        context, owner = info.context, info.context.require_caller().subject
        keys = list(dict.fromkeys(Kind.key_in(context, "Concert", one) for one in input.concert_ids))
        if not 1 <= len(keys) <= MOST:
            raise InvalidInput(f"A pass is for 1 to {MOST} concerts; got {len(keys)}.", "concertIds")
        await find_concerts(context.db, keys)
        bought = await buy_pass(context, keys, owner)
        concerts = await find_concerts(context.db, keys)
        return PassPayload(sold=as_type(Pass, bought), concerts=[as_type(Concert, one) for one in concerts])


DOMAIN = Domain(
    name="festival",
    about="Passes for concerts.",
    collections=(CONCERTS, PASSES),
    jobs=(Job("finish-passes", finish_passes),),
    invariants=(Invariant("The passes and the free places of every concert add up.", find_oversold),),
    kinds=(CONCERT, PASS),
    mutations=(FestivalMutation,),
)
