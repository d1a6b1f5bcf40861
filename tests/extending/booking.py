"""A domain for tests: seats of shows, which are paid for by accounts.

A write of this domain calls one of another. The unique index holds the seat first, under the id of the operation. Then
the transfer is made with this id. Its outcome is final, so whoever finishes the booking does the same: if the money was
moved, the seat is booked; if the transfer was refused, the seat is free again. After a crash, the job finishes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any, NotRequired

import strawberry
from bson import ObjectId
from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError

from portico import (
    Caller,
    Context,
    Domain,
    DomainError,
    Info,
    InvalidInput,
    NotFound,
    Resources,
    Role,
    Service,
    setting,
)
from portico.accounts import ACCOUNT, InsufficientFunds, Transfer, find_transfer, open_account, transfer
from portico.jobs import Counter, Invariant, Job, Problem, sweep
from portico.schema import (
    After,
    Connection,
    First,
    Kind,
    Node,
    Paged,
    as_type,
    costs,
    described,
    failure,
    find_visible,
    idempotency_key,
    load_one,
    mutation,
    node_id,
    occurrences,
    reads,
    related,
    states,
    stored,
)
from portico.store import ChangeSource, CollectionSpec, Database, Event, Listing, NotificationSource, Sort, TypedDict
from portico.writes import Host, Hosts, marks


class ShowDocument(TypedDict):
    """A show. All seats have one price."""

    _id: ObjectId
    # They have the numbers from 1.
    seats: int
    # Minor units.
    price: int
    currency: str
    venue: str


class ChangeDocument(TypedDict):
    """A change of a booking."""

    state: str
    booker: str


class BookingDocument(TypedDict):
    """A seat that is held, or booked."""

    _id: ObjectId
    show: ObjectId
    venue: str
    seat: int
    # The subject of the booker, and their account that pays.
    booker: str
    account: ObjectId
    # HELD until the money has been moved, then BOOKED.
    state: str
    held: datetime
    # The id of the operation that pays.
    operation: str
    # The transfer; missing while the seat is held.
    payment: NotRequired[ObjectId]
    # The latest change of the state, with what its event needs.
    changed: NotRequired[ChangeDocument]


SHOWS = CollectionSpec("shows", document=ShowDocument)
BOOKINGS = CollectionSpec(
    "bookings",
    document=BookingDocument,
    shard_key={"show": 1},
    indexes=[
        IndexModel([("show", 1), ("seat", 1)], unique=True),
        IndexModel([("state", 1), ("held", 1)]),
        IndexModel([("booker", 1), ("held", -1), ("_id", -1)]),
    ],
)


@dataclass(frozen=True)
class BookingSettings:
    held_seconds: float = setting(5, "The seconds after which the job finishes what a crashed call has left.")


class BoxOffice:
    """Counts the seats that this process has sold."""

    def __init__(self) -> None:
        self.sold = 0


@asynccontextmanager
async def open_box_office(_settings: Resources, _db: Database) -> AsyncIterator[BoxOffice]:
    yield BoxOffice()


async def find_shows(db: Database, keys: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    wanted = [ObjectId(key) for key in keys if ObjectId.is_valid(key)]
    return {str(show["_id"]): show async for show in db[SHOWS.name].find({"_id": {"$in": wanted}})}


def state_changed(change: Mapping[str, Any]) -> list[Event]:
    is_new, booking = change["operationType"] == "insert", change["documentKey"]["_id"]
    changed = change["fullDocument"] if is_new else change["updateDescription"]["updatedFields"]["changed"]
    return [Event(("booking", booking), booking), Event(("bookings", changed["booker"]), booking)]


STATES = ChangeSource(
    collections=frozenset({BOOKINGS.name}),
    match={
        "$or": [
            {"operationType": "insert"},
            {"operationType": "update", "updateDescription.updatedFields.changed": {"$exists": True}},
        ]
    },
    paths=("documentKey", "fullDocument.booker", "updateDescription.updatedFields.changed"),
    events=state_changed,
)


async def find_notices(db: Database, _hosts: Hosts, keys: Sequence[ObjectId]) -> list[NotificationSource.Notice]:
    return [
        NotificationSource.Notice(
            reason="SEAT_BOOKED", to=booking["booker"], about=("Booking", str(booking["_id"])), at=booking["held"]
        )
        async for booking in BOOKINGS.of(db).find({"_id": {"$in": list(keys)}, "state": "BOOKED"})
    ]


def booked_since(booking: Mapping[str, Any], since: datetime) -> list[ObjectId]:
    return [booking["_id"]] if booking["held"] >= since else []


BOOKED = NotificationSource(
    name="bookings",
    reasons={"SEAT_BOOKED": "The viewer's seat is paid for."},
    changes=STATES,
    notices=find_notices,
    backlogs=(NotificationSource.Backlog(BOOKINGS, ("held",), booked_since),),
)


@failure("Somebody else has the seat, or is paying for it.", seat="The number of the seat.")
class SeatTaken(DomainError):
    """The seat is held or booked."""

    seat: int


async def book_seat(
    db: Database, show: ShowDocument, *, seat: int, booker: str, account: ObjectId, now: datetime, operation_id: str
) -> BookingDocument:
    """Books a seat and pays for it. Raises InvalidInput, SeatTaken, and what `transfer` raises."""
    if not 1 <= seat <= show["seats"]:
        raise InvalidInput(f"The show has the seats 1 to {show['seats']}; got {seat}.", "seat")
    booking: BookingDocument = {
        "_id": marks.derived_id(operation_id, "booking"),
        "show": show["_id"],
        "venue": show["venue"],
        "seat": seat,
        "booker": booker,
        "account": account,
        "state": "HELD",
        "held": now,
        "operation": operation_id,
    }
    try:
        booking = await BOOKINGS.create_once(db, booking)
    except DuplicateKeyError:
        raise SeatTaken("The seat is taken. Choose another one.", seat=seat) from None
    return await finish(db, booking, now)


async def finish(db: Database, booking: BookingDocument, now: datetime) -> BookingDocument:
    """Pays for a seat that is held, or gives it up. Anybody can do it, any number of times."""
    key = {"_id": booking["_id"], "show": booking["show"]}
    show = await SHOWS.of(db).find_one({"_id": booking["show"]})
    if show is None:
        raise NotFound("Show", str(booking["show"]))
    paid_to = await open_account(db, reference="booking", name="The box office", currency=show["currency"], now=now)
    try:
        paid = await transfer(
            db,
            owner=booking["booker"],
            source_id=booking["account"],
            destination_id=paid_to["_id"],
            amount=show["price"],
            currency=show["currency"],
            now=now,
            operation_id=booking["operation"],
        )
    except (InsufficientFunds, InvalidInput, NotFound):
        await db[BOOKINGS.name].delete_one({**key, "state": "HELD"})
        raise
    booked: BookingDocument = {**booking, "state": "BOOKED", "payment": paid["_id"]}
    changed = {"state": "BOOKED", "booker": booking["booker"]}
    await db[BOOKINGS.name].update_one(key, {"$set": {"state": "BOOKED", "payment": paid["_id"], "changed": changed}})
    return booked


async def finish_bookings(run: Job.Run) -> int:
    """Finishes what calls have left behind."""

    async def one(booking: BookingDocument) -> int:
        try:
            await finish(run.db, booking, run.now)
        except DomainError as refusal:
            if refusal.is_retryable:
                raise
        return 1

    crashed = run.now - timedelta(seconds=run.resources.of(BookingSettings).held_seconds)
    return await sweep(run.db, BOOKINGS, {"state": "HELD", "held": {"$lte": crashed}}, one)


async def find_unpaid(db: Database) -> AsyncIterator[Problem]:
    async for booking in BOOKINGS.of(db).find({}):
        paid = await find_transfer(db, operation_id=booking["operation"])
        if booking["state"] == "HELD":
            yield Problem(f"booking {booking['_id']}", "the seat is held", is_open=True)
        elif paid is None or paid["state"] != "SETTLED":
            yield Problem(f"booking {booking['_id']}", "the seat is not paid for")


USHER = Role("USHER", "The doors of a venue.")
VENUE = Caller.Claim("venue", str)


def is_visible(booking: BookingDocument, context: Context) -> bool:
    """The booker sees the booking, and so do the ushers of its venue."""
    caller = context.caller
    if caller is None or booking["booker"] == caller.subject:
        return caller is not None
    return caller.has(USHER) and caller.claim(VENUE) == booking["venue"]


SHOW = Kind.of("Show", SHOWS, visible_to=Kind.everybody)
BOOKING = Kind.of("Booking", BOOKINGS, reads=("booker", "venue"), visible_to=is_visible)


@strawberry.type(description="A show.")
class Show(Node):
    id: strawberry.ID = node_id("Show", "_id")
    seats: int = stored(description="How many seats it has.")


@strawberry.type
class BookingQuery:
    @strawberry.field(metadata=costs(max_age=60), description="A show.")
    async def show(self, info: Info, id: Annotated[strawberry.ID, described("Its id.")]) -> Show | None:
        return as_type(Show, await load_one(info, SHOW, Kind.key_in(info.context, "Show", id)))


@strawberry.enum(description="The state of a booking.")
class BookingState(Enum):
    HELD = strawberry.enum_value("HELD", description="Being paid for.")
    BOOKED = strawberry.enum_value("BOOKED", description="Paid for.")


@strawberry.type(description="A seat that is paid for.")
class Booking(Node):
    id: strawberry.ID = node_id("Booking", "_id")
    show: Show = related("Show", "show", description="The show.")
    seat: int = stored(description="The number of the seat.")
    state: BookingState = stored(description="Its state.")
    payment: Transfer | None = related("Transfer", "payment", description="The payment.")


PAGES = Paged.of(BOOKING, BOOKINGS, counts=lambda context, wanted: wanted == {"booker": context.subject})


@strawberry.type
class ViewerBookings:
    @reads(description="The bookings of the viewer, latest first.")
    @staticmethod
    async def bookings(info: Info, first: First = 10, after: After = None) -> Connection[Booking]:
        shown = Listing({"booker": info.context.subject}, Sort((("held", -1),)))
        return Connection(page=await PAGES.page(info, shown, first=first, default=10, after=after))


@strawberry.input(description="A seat to book.")
class BookSeatInput:
    show_id: strawberry.ID = strawberry.field(description="The show.")
    seat: int = strawberry.field(description="The number of the seat.")
    account_id: strawberry.ID = strawberry.field(description="One of the viewer's accounts.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.type(description="The booking.")
class BookingPayload:
    booking: Booking = strawberry.field(description="The booking.")


BookSeatResult = Annotated[
    BookingPayload | SeatTaken | InsufficientFunds | NotFound | InvalidInput,
    strawberry.union("BookSeatResult", description="The result of booking."),
]


@strawberry.type
class BookingMutation:
    @mutation(description="Books a seat and pays for it.")
    async def book_seat(self, info: Info, input: BookSeatInput) -> BookSeatResult | None:
        context, booker = info.context, info.context.require_caller().subject
        show = await find_visible(context, SHOW, input.show_id)
        account = await find_visible(context, ACCOUNT, input.account_id)
        booked = await book_seat(
            context.db, show, seat=input.seat, booker=booker, account=account["_id"], **context.operation
        )
        context.resources.of(BoxOffice).sold += 1
        return BookingPayload(booking=as_type(Booking, booked))


def order_of(booking: Any) -> int:
    return ["HELD", "BOOKED"].index(booking["state"])


@strawberry.type
class BookingSubscription:
    @strawberry.subscription(description="A booking of the viewer whenever its state changes.")
    async def booking_changed(
        self, info: Info, id: Annotated[strawberry.ID, described("The booking.")]
    ) -> AsyncIterator[Booking]:
        booking = await find_visible(info.context, BOOKING, id)
        changes: AsyncIterator[Booking] = await states(
            info.context, ("booking", booking["_id"]), BOOKING, order=order_of
        )
        return changes

    @strawberry.subscription(description="Each booking of the viewer when it is made, and when its state changes.")
    async def bookings_changed(self, info: Info) -> AsyncIterator[Booking]:
        topic = ("bookings", info.context.require_caller().subject)
        changes: AsyncIterator[Booking] = await occurrences(info.context, topic, BOOKING)
        return changes


DOMAIN = Domain(
    name="booking",
    about="Seats of shows.",
    needs=("accounts",),
    roles=(USHER,),
    claims=(VENUE,),
    collections=(SHOWS, BOOKINGS),
    settings=BookingSettings,
    services=(Service(BoxOffice, open_box_office),),
    counters=(Counter("portico_seats_sold", "Seats that were sold.", lambda resources: resources.of(BoxOffice).sold),),
    hosts=(Host("Show", find_shows),),
    events=(STATES,),
    notifications=(BOOKED,),
    jobs=(Job("finish-bookings", finish_bookings),),
    invariants=(Invariant("Every booked seat is paid for.", find_unpaid),),
    kinds=(SHOW, BOOKING),
    pages=(PAGES,),
    queries=(BookingQuery,),
    mutations=(BookingMutation,),
    subscriptions=(BookingSubscription,),
    extensions={"Viewer": (ViewerBookings,)},
)
