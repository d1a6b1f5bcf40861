"""Trades: offer, accept, cancel.

An offer moves the goods into the trade itself, which holds them while it is OFFERED. So the stacks of somebody with
many open offers stay small. An acceptance takes what is wanted, and gives both sides what they are due; a cancellation
gives the goods back. Each is a settlement, see `exchanges`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from bson import ObjectId
from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, InvalidInput, NotFound
from portico.resolvers.game.refusals import LimitReached
from portico.resolvers.together import both
from portico.resolvers.writes.deciding import look_at
from portico.resolvers.writes.marks import derived_id, is_repeatable
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settlements import Attempt, confirm, prepare, undo
from portico.resolvers.writes.settler import AT_ONCE, Answering
from portico.resolvers.writes.timer import Timer

from . import stacks, trade_bounds
from .exchanges import Line, attempt_of, credits_of, debits, explain_miss, goods_of, new_stack, place_of, settle
from .new_records import insert_settled
from .stack_refusals import NotEnough
from .stacks import DISPLAY, STACKS, Place, Viewer, Wanted
from .trade_records import ACCEPTED, CANCELLED, MAX_LINES, OFFERED, SETTLED, TRADE, TRADES


async def offer_trade(
    db: Database,
    *,
    viewer: Viewer,
    source: Place,
    to: Place,
    offers: Sequence[Wanted],
    wants: Sequence[Wanted],
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Offers goods to another owner for other goods. The trade holds what is offered until it is accepted or cancelled.

    Args:     answering: how the call is answered.
    Returns:  the trade, OFFERED.
    Raises:   InvalidInput, NotFound (the viewer does not own the inventory), NotEnough, LimitReached (open offers to
              this owner), Conflict (goods in flight did not come back).
    Writes:   game.trade_pairs, a capped counter; then game.stacks, game.trades, a settlement.
    """
    with InvalidInput.collect() as check:
        offers, wants = check(_require_lines, offers, "offers"), check(_require_lines, wants, "wants")
        check(stacks.require_place, source, "from")
        check(stacks.require_place, to, "to")
    if not viewer.owns(source.owner):
        raise NotFound("Inventory")
    _require_two_sides(source, to, offers, wants)
    claim = derived_id(operation_id, "claim")
    record = {**_record(source, to, offers, wants), "claim": claim, "created_at": now}
    # An earlier call with the key must not find that this one has taken the last place.
    await answering.confirmed()
    return await _offer(db, record, debits(source, offers), now=now, operation_id=operation_id, answering=answering)


def _record(source: Place, to: Place, offers: Sequence[Wanted], wants: Sequence[Wanted]) -> Document:
    """Returns the record of a new trade, without its claim and its time."""
    giving, receiving = _sides(source, to, offers, wants)
    return {
        "kind": TRADE,
        "state": OFFERED,
        "from": {"owner": source.owner, "inventory": source.name},
        "to": {"owner": to.owner, "inventory": to.name},
        "owners": [source.owner, to.owner],
        "offers": [one._asdict() for one in offers],
        "wants": [one._asdict() for one in wants],
        "stacks": [line.stack_id for line in (*giving, *receiving)],
        "round": 0,
    }


async def _offer(
    db: Database, record: Document, lines: Sequence[Line], *, now: datetime, operation_id: str, answering: Answering
) -> Document:
    """Claims a place among the open offers, and makes the offer."""
    source, to, claim = record["from"]["owner"], record["to"]["owner"], record["claim"]
    try:
        await trade_bounds.claim_place(db, source, to, claim=claim, now=now)
    except LimitReached:
        # An earlier call with this operation id may have made the offer, which has been concluded since.
        if await db[TRADES.name].find_one({"claim": claim}, {"_id": 1}) is None:
            raise
    try:
        offered = await insert_settled(db, record, lines, now=now, operation_id=operation_id, answering=answering)
    except DomainError:
        await trade_bounds.release_claim(db, source, to, claim)
        raise
    if offered["state"] != OFFERED:
        # A repeated call: the trade is concluded already.
        await trade_bounds.release_place(db, offered)
    return offered


def _require_two_sides(source: Place, to: Place, offers: Sequence[Wanted], wants: Sequence[Wanted]) -> None:
    with InvalidInput.collect() as check:
        if source.owner == to.owner:
            text = "A trade needs two owners. Use `transferStack` between your inventories."
            check.refuse(InvalidInput(text, "to", "owner", code=InvalidInput.NOT_ALLOWED))
        if not offers and not wants:
            check.refuse(InvalidInput("A trade must offer or want something.", "offers", code=InvalidInput.REQUIRED))
        if {one[:2] for one in offers} & {one[:2] for one in wants}:
            check.refuse(
                InvalidInput("An item cannot be on both sides of a trade.", "wants", code=InvalidInput.DUPLICATE)
            )


def _sides(
    source: Place, to: Place, offers: Sequence[Wanted], wants: Sequence[Wanted]
) -> tuple[list[Line], list[Line]]:
    """Returns the lines that give, and those that receive: each gives to the one at the same place."""
    giving = [*debits(source, offers), *debits(to, wants)]
    return giving, [*credits_of(to, offers), *credits_of(source, wants)]


def _require_lines(lines: Sequence[Wanted], side: str) -> list[Wanted]:
    if len(lines) > MAX_LINES:
        raise InvalidInput(
            f"There are {len(lines):,} lines; {MAX_LINES} are allowed.",
            side,
            code=InvalidInput.TOO_MANY,
            most=MAX_LINES,
        )
    with InvalidInput.collect() as check:
        found = [check(stacks.require_wanted, line, side, str(number)) for number, line in enumerate(lines)]
    for number, wanted in enumerate(found):
        if any(wanted[:2] == other[:2] for other in found[:number]):
            raise InvalidInput(
                "Each item can be in one line of a side.", side, str(number), code=InvalidInput.DUPLICATE
            )
    return found


async def accept_trade(
    db: Database,
    *,
    viewer: Viewer,
    trade_id: ObjectId,
    expire_after: timedelta | None = None,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Takes what is wanted from the other side, and gives both sides what they are due.

    Args:     expire_after: the age of an offer that nobody can accept any more; None for no bound.
              answering: how the call is answered.
    Returns:  the trade, SETTLED.
    Raises:   NotFound, InvalidInput (the viewer made the offer), NotEnough, Conflict (it is accepted or cancelled, it
              has expired, or goods in flight did not come back).
    Writes:   game.stacks, game.trades; a settlement.
    """
    latest = None if expire_after is None else now - expire_after
    return await _conclude(db, trade_id, ACCEPTED, viewer, now, operation_id, answering, latest=latest)


async def cancel_trade(
    db: Database,
    *,
    viewer: Viewer,
    trade_id: ObjectId,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Gives back what was offered. Either side can do this while the trade is OFFERED.

    Args:     answering: how the call is answered.
    Returns:  the trade, CANCELLED.
    Raises:   NotFound, InvalidInput (the inventory has no room any more), Conflict (it is accepted or cancelled).
    Writes:   game.stacks, game.trades; a settlement.
    """
    return await _conclude(db, trade_id, CANCELLED, viewer, now, operation_id, answering)


async def _conclude(
    db: Database,
    trade_id: ObjectId,
    state: str,
    viewer: Viewer,
    now: datetime,
    operation_id: str,
    answering: Answering,
    *,
    latest: datetime | None = None,
) -> Document:
    """Accepts or cancels the trade.

    Args:     latest: offers that were made by then have expired; None for no expiry.
    """
    timer = Timer(now)
    async for _ in attempts(steps=2):
        trade = await _read(db, trade_id)
        if trade is None or not any(map(viewer.owns, trade["owners"])):
            raise NotFound("Trade", str(trade_id))
        if state == ACCEPTED and not viewer.owns(trade["to"]["owner"]):
            raise InvalidInput("Only the other side can accept the trade.", "id", code=InvalidInput.NOT_ALLOWED)
        if trade.get("decided_by") == operation_id:
            return await finish_another(db, trade_id)
        if trade["state"] != OFFERED:
            raise Conflict(f"The trade is {'cancelled' if trade['state'] == CANCELLED else 'accepted'} already.")
        if latest is not None and trade["created_at"] <= latest:
            raise Conflict("The offer has expired.")
        lines = lines_of(trade, state)
        new = _missing(trade) if state == ACCEPTED else ()
        attempt = attempt_of(trade_id, lines, timer.now(), round_=trade["round"], new=new)
        if await prepare(db, attempt):
            await confirm(db, answering, attempt)
            if decided := await _decide(db, attempt, trade, state, operation_id):
                return await finish(db, decided)
            await undo(db, attempt)
        else:
            await _explain(db, trade_id, lines, timer.now())
    raise Conflict("Other callers are using the same stacks. Try again.")


async def _read(db: Database, trade_id: ObjectId) -> Document | None:
    """Returns the trade, with `found`: what its stacks show. One command."""
    lookup = {
        "from": STACKS.name,
        "localField": "stacks",
        "foreignField": "_id",
        "pipeline": [{"$project": dict.fromkeys(DISPLAY, 1)}],
        "as": "found",
    }
    stages: list[Document] = [{"$match": {"_id": trade_id, "kind": TRADE}}, {"$lookup": lookup}]
    found = await (await db[TRADES.name].aggregate(stages)).to_list()
    return found[0] if found else None


def _missing(trade: Document) -> list[Document]:
    """Returns the stacks that receive something for the first time. They look like the stacks that give it."""
    shown = {stack["_id"]: stack for stack in trade["found"]}
    giving, receiving = _sides(
        place_of(trade["from"]), place_of(trade["to"]), goods_of(trade["offers"]), goods_of(trade["wants"])
    )
    # If the giving stack does not exist, its debit fails, and nothing is received.
    return [
        new_stack(line, shown.get(source.stack_id, {}))
        for source, line in zip(giving, receiving, strict=True)
        if line.stack_id not in shown and source.stack_id in shown
    ]


def lines_of(trade: Document, state: str) -> list[Line]:
    """Returns what accepting or cancelling the trade changes. The offers are in the trade itself."""
    source, to = place_of(trade["from"]), place_of(trade["to"])
    offers, wants = goods_of(trade["offers"]), goods_of(trade["wants"])
    if state == CANCELLED:
        return credits_of(source, offers)
    return [*debits(to, wants), *credits_of(to, offers), *credits_of(source, wants)]


async def _decide(db: Database, attempt: Attempt, trade: Document, state: str, operation_id: str) -> Document | None:
    """Sets the state of a trade that is still OFFERED, in the round of the attempt. Returns it, or None."""
    changes: Document = {"state": state, "decided": attempt.key, "concluded_at": attempt.at}
    if state == ACCEPTED:
        changes["open_since"] = attempt.at
    else:
        changes["concluded_for"] = trade["owners"]
    if is_repeatable(operation_id):
        changes["decided_by"] = operation_id
    guard = {"_id": attempt.record, "state": OFFERED, "round": trade["round"]}
    return await db[TRADES.name].find_one_and_update(guard, {"$set": changes}, return_document=ReturnDocument.AFTER)


async def _explain(db: Database, trade_id: ObjectId, lines: Sequence[Line], now: datetime) -> None:
    """Finds out why stacks lacked goods or room. If the trade has just been decided, that can be why."""
    try:
        await explain_miss(db, lines, now=now)
    except (NotEnough, InvalidInput):
        is_open = {"_id": trade_id, "state": OFFERED}
        if await db[TRADES.name].find_one(is_open, {"_id": 1}) is not None:
            raise


async def finish_another(db: Database, trade_id: ObjectId) -> Document:
    """Finishes a trade that another process has accepted or cancelled. Returns it. Idempotent. Raises NotFound."""
    trade = await look_at(db, TRADES, trade_id)
    if trade is None:
        raise NotFound("Trade", str(trade_id))
    return await finish(db, trade)


async def finish(db: Database, decided: Document) -> Document:
    """Finishes an accepted or cancelled trade, and returns it. Idempotent, also when run concurrently."""
    if decided["state"] not in {ACCEPTED, CANCELLED}:
        return decided
    lines, at = lines_of(decided, decided["state"]), decided["created_at"]
    attempt = attempt_of(decided["_id"], lines, at, round_=decided["round"], key=decided["decided"])
    await both(settle(db, attempt), trade_bounds.release_place(db, decided))
    if decided["state"] == CANCELLED:
        return decided
    update = {"$set": {"state": SETTLED, "concluded_for": decided["owners"]}, "$unset": {"open_since": ""}}
    await db[TRADES.name].update_one({"_id": decided["_id"], "state": ACCEPTED}, update)
    return {**decided, "state": SETTLED}
