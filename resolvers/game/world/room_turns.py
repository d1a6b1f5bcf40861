"""What a room decides: pure functions of its document and one step of a character's turn. See `turns`.

A step:

    kind         one of the constants below
    character    the `_id` of the character
    turn         the number of the turn
    at           when the action began, UTC
    items, gold  what the character has handed over; missing for nothing
    item, container, keeper, to  what the action is about: `_id`s, the number of a shopkeeper; as the kind needs
    before       for REST: the character rests if its latest action began by then
    entry        for ENTER: {name, limit, load, count} of the new entry
    failed       why an earlier attempt to apply this step failed by a fault, a text; missing if none did. Then the
                 turn is refused, so that it ends

`decide` never changes its arguments. It records the outcome of the turn in the character's entry of the roster, so
that a step that is repeated or late finds the outcome and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.errors import DomainError
from portico.resolvers.game.refusals import LimitReached

from . import items, locations
from .action_refusals import InsufficientGold, ItemGone, TurnFailed, WrongItem, not_in_room, refusal_of
from .characters import MAX_ITEMS

STAY, PICK_UP, DROP, GIVE, BUY, SELL = "STAY", "PICK_UP", "DROP", "GIVE", "BUY", "SELL"
TAKE_OUT, PUT_IN, LEAVE, ENTER = "TAKE_OUT", "PUT_IN", "LEAVE", "ENTER"
# The room alone decides these about the character's own things. So the call is answered then; see `turn_ends`.
OF_ONE_ROOM = {PICK_UP, DROP, BUY, SELL, TAKE_OUT, PUT_IN}
# These follow a turn whose outcome is known: take `leaving` back, drop an entry that is left over, forget `took`.
RETURN, TIDY, FORGET = "RETURN", "TIDY", "FORGET"
FOLLOW_UPS = {RETURN, TIDY, FORGET}
# Items that are neither on the floor nor with a shopkeeper: `took` and gifts. A document must stay below 16 MB, and
# the floor and the shopkeepers need at most 7 of them.
MAX_BYTES_IN_PASSING = 4_000_000
_BYTES_BESIDES_TEXT = 500
# A character leaves its room without going to another: it rests if it is idle, or it is deleted.
REST, REMOVE = "REST", "REMOVE"


class NotHere(Exception):
    """This state of the room does not know the character, or not the turn. The state is old, or the turn is over."""


def decide(room: Document, step: Document) -> Document:
    """Returns the room after the step; the same object if the step changes nothing.

    Raises:   NotHere.
    """
    if step["kind"] == ENTER:
        return _enter(room, step)
    entry = entry_of(room, step["character"])
    if step["kind"] in FOLLOW_UPS:
        return _follow_up(room, entry, step)
    if entry is None or (entry["turn"] < step["turn"] and ("leaving" in entry or "absent" in entry)):
        raise NotHere
    if entry["turn"] >= step["turn"]:
        return room
    return _take_turn(room, entry, step)


def entry_of(room: Document, character: ObjectId) -> Document | None:
    """Returns the character's entry of the roster, also if it is leaving or absent."""
    return next((entry for entry in room["characters"] if entry["_id"] == character), None)


def keeps_outcome(entry: Document) -> bool:
    """Returns whether the entry has items or gold of its latest turn. The character may have got them since."""
    return bool(entry["took"] or entry["gold"])


def marks_of(room: Document) -> Document:
    """Returns the marks for the job: since when gifts wait, since when outcomes are kept, and entries are left."""
    marked: dict[str, Callable[[Document], bool]] = {
        "gifts_since": lambda entry: bool(entry["gifts"]),
        "took_since": keeps_outcome,
        "leaving_since": lambda entry: "leaving" in entry or "absent" in entry,
    }
    return {
        mark: min((entry["since"] for entry in room["characters"] if is_marked(entry)), default=None)
        for mark, is_marked in marked.items()
    }


def _take_turn(room: Document, entry: Document, step: Document) -> Document:
    given: list[Document] = step.get("items", [])
    more, refused = 0, None
    try:
        changed, took, gold = _carry_out(room, entry, step)
        more = items.weight_of(took) - items.weight_of(given)
    except (DomainError, TurnFailed) as error:
        # What was handed over goes back.
        changed, took, gold, refused = room, given, step.get("gold", 0), refusal_of(error)
    new = {
        **entry,
        "turn": step["turn"],
        "load": entry["load"] + more,
        "count": entry["count"] + len(took) - len(given),
        # The gifts go along. They count already.
        "took": [*took, *entry["gifts"]],
        "gold": gold,
        "refused": refused,
        "gifts": [],
        "since": step["at"],
    }
    if refused is None and _leaves(entry, step):
        new["leaving"] = True
    if refused is None and step["kind"] == REMOVE:
        # The gifts are on the floor, too.
        new["took"] = []
    return _with_entry(changed, new)


def _carry_out(room: Document, entry: Document, step: Document) -> _Result:
    if "failed" in step:
        raise TurnFailed(step["failed"])
    return _ACTIONS[step["kind"]](room, entry, step)


def _enter(room: Document, step: Document) -> Document:
    old = entry_of(room, step["character"])
    if old is not None and old["turn"] >= step["turn"]:
        return room
    others = [entry for entry in room["characters"] if entry is not old]
    new = {
        "_id": step["character"],
        **step["entry"],
        "turn": step["turn"],
        "took": [],
        "gold": 0,
        "refused": None,
        "gifts": [],
        "since": step["at"],
    }
    # A character that is leaving may be sent back, so it keeps its place.
    if sum("absent" not in entry for entry in others) >= locations.MAX_CHARACTERS:
        new |= {"absent": True, "refused": refusal_of(full())}
    return {**room, "characters": [*others, new]}


def full() -> LimitReached:
    """Returns the error for a room that admits nobody else."""
    most = locations.MAX_CHARACTERS
    return LimitReached(f"The room is full: {most} characters are in it.", most)


def forget(room: Document, character: ObjectId, turn: int) -> Document:
    """Returns the room without what this turn has given to the character; the same object if there is nothing."""
    entry = entry_of(room, character)
    if entry is None or entry["turn"] != turn or not keeps_outcome(entry):
        return room
    return _with_entry(room, {**entry, "took": [], "gold": 0, "over": turn})


def _follow_up(room: Document, entry: Document | None, step: Document) -> Document:
    if entry is None or entry["turn"] < step["turn"]:
        # The step follows a state that has the entry. Unless the entry is gone again, this state is older.
        raise NotHere
    if entry["turn"] > step["turn"]:
        return room
    if step["kind"] == FORGET:
        return forget(room, step["character"], step["turn"])
    if step["kind"] == RETURN:
        kept = {name: value for name, value in entry.items() if name != "leaving"}
        return _with_entry(room, kept) if "leaving" in entry else room
    if "leaving" in entry or "absent" in entry:
        return {**room, "characters": [one for one in room["characters"] if one is not entry]}
    return room


def _with_entry(room: Document, new: Document) -> Document:
    return {**room, "characters": [new if one["_id"] == new["_id"] else one for one in room["characters"]]}


# What an action leads to: the room, the items and the gold pieces for the character.
_Result = tuple[Document, list[Document], int]


def _nothing(room: Document, _entry: Document, step: Document) -> _Result:
    return room, step.get("items", []), step.get("gold", 0)


def _pick_up(room: Document, entry: Document, step: Document) -> _Result:
    taken = items.with_contents(room["items"], step["item"])
    if not taken:
        raise ItemGone(str(step["item"]))
    if taken[0]["inside"] is not None:
        raise WrongItem("The item is inside another one. Take it out first.")
    _require_carried(room, entry, taken)
    return {**room, "items": items.without(room["items"], taken)}, taken, 0


def _take_out(room: Document, entry: Document, step: Document) -> _Result:
    if items.find(room["items"], step["container"]) is None:
        raise ItemGone(str(step["container"]))
    taken = items.with_contents(room["items"], step["item"])
    if not taken or taken[0]["inside"] != step["container"]:
        raise ItemGone(str(step["item"]))
    _require_carried(room, entry, taken)
    return {**room, "items": items.without(room["items"], taken)}, items.placed(taken, None), 0


def _drop(room: Document, _entry: Document, step: Document) -> _Result:
    return {**room, "items": _on_floor(room, items.placed(step["items"], None))}, [], 0


def _put_in(room: Document, _entry: Document, step: Document) -> _Result:
    require_fit(room["items"], step["container"], step["items"])
    return {**room, "items": _on_floor(room, items.placed(step["items"], step["container"]))}, [], 0


def _remove(room: Document, entry: Document, step: Document) -> _Result:
    """Everything that the character has falls to the floor. What is worn or wielded does, too."""
    left = [*step.get("items", []), *entry["gifts"]]
    return {**room, "items": _on_floor(room, left)}, [], 0


def _on_floor(room: Document, given: list[Document]) -> list[Document]:
    if len(room["items"]) + len(given) > locations.MAX_ITEMS:
        most = locations.MAX_ITEMS
        raise LimitReached(f"The floor has no place for more than {most} items.", most)
    return [*room["items"], *given]


def require_fit(within: list[Document], container_id: ObjectId, given: list[Document]) -> None:
    """Requires that an item with its contents can go into the container, which is among the items `within`.

    Raises:   ItemGone (the container), WrongItem, LimitReached (pounds that the container holds, or levels).
    """
    container = items.find(within, container_id)
    if container is None:
        raise ItemGone(str(container_id))
    if container["capacity"] is None:
        raise WrongItem(f"{container['name']} holds nothing.")
    if items.depth_of(within, container_id) + items.height_of(given) > items.MAX_DEPTH:
        raise LimitReached(f"Items can lie at most {items.MAX_DEPTH} deep inside each other.", items.MAX_DEPTH)
    # The containers around it hold it, too.
    around: Document | None = container
    while around is not None:
        held = items.with_contents(within, around["_id"])[1:]
        if around["capacity"] is None or items.weight_of([*held, *given]) > around["capacity"]:
            pounds = (around["capacity"] or 0) // items.POUND
            raise LimitReached(f"{around['name']} holds at most {pounds:,} pounds.", pounds)
        around = None if around["inside"] is None else items.find(within, around["inside"])


def _give(room: Document, entry: Document, step: Document) -> _Result:
    taker = entry_of(room, step["to"])
    if taker is None or "leaving" in taker or "absent" in taker or taker is entry:
        raise not_in_room(str(step["to"]))
    given = items.placed(step["items"], None)
    if sum(gift["inside"] is None for gift in taker["gifts"]) >= locations.MAX_GIFTS:
        raise LimitReached(f"{locations.MAX_GIFTS} gifts wait for the character. Try again.", locations.MAX_GIFTS)
    if not _can_carry(taker, given):
        # How much the other one can carry is known to its player only.
        raise WrongItem(f"{taker['name']} cannot carry this as well.")
    _require_passing(room, given)
    with_gift = {
        **taker,
        "gifts": [*taker["gifts"], *given],
        "load": taker["load"] + items.weight_of(given),
        "count": taker["count"] + len(given),
        "since": step["at"],
    }
    return _with_entry(room, with_gift), [], 0


def _buy(room: Document, entry: Document, step: Document) -> _Result:
    keeper = _require_keeper(room, step)
    taken, price = ware(keeper, step["item"])
    # Missing in a purchase for nothing that an earlier version has begun.
    gold = step.get("gold", 0)
    if price > gold:
        raise InsufficientGold(price, gold)
    _require_carried(room, entry, taken)
    paid = {**keeper, "gold": keeper["gold"] + price, "items": items.without(keeper["items"], taken)}
    return _with_keeper(room, paid), taken, gold - price


def ware(keeper: Document, item_id: ObjectId) -> tuple[list[Document], int]:
    """Returns an item of a shopkeeper as a list, and its price. Raises ItemGone, WrongItem."""
    taken = items.with_contents(keeper["items"], item_id)
    if not taken:
        raise ItemGone(str(item_id))
    price = items.price_of(taken[0]["cost"], keeper["asks"])
    if price is None or len(taken) > 1:
        raise WrongItem("This item is not for sale.")
    return taken, price


def _sell(room: Document, _entry: Document, step: Document) -> _Result:
    keeper = _require_keeper(room, step)
    given = step["items"]
    payment = offer(keeper, given)
    if payment > keeper["gold"]:
        raise InsufficientGold(payment, keeper["gold"])
    if len(keeper["items"]) >= locations.MAX_KEEPER_ITEMS:
        most = locations.MAX_KEEPER_ITEMS
        raise LimitReached(f"{keeper['name']} has no place for more than {most} items.", most)
    stocked = {
        **keeper,
        "gold": keeper["gold"] - payment,
        "items": [*keeper["items"], *items.placed(given, None)],
    }
    return _with_keeper(room, stocked), [], payment


def offer(keeper: Document, given: list[Document]) -> int:
    """Returns what a shopkeeper pays for an item with its contents. Raises WrongItem."""
    payment = items.payment_of(given[0]["cost"], keeper["pays"])
    if payment is None or given[0]["kind"] not in keeper["buys"]:
        raise WrongItem(f"{keeper['name']} does not buy this kind of item.")
    if len(given) > 1:
        raise WrongItem("The item holds other items. Take them out first.")
    return payment


def keeper_of(room: Document, number: int) -> Document | None:
    return next((keeper for keeper in room["keepers"] if keeper["number"] == number), None)


def _require_keeper(room: Document, step: Document) -> Document:
    keeper = keeper_of(room, step["keeper"])
    if keeper is None:
        raise not_in_room(locations.keeper_key(room["_id"], step["keeper"]))
    return keeper


def _with_keeper(room: Document, new: Document) -> Document:
    return {**room, "keepers": [new if one["number"] == new["number"] else one for one in room["keepers"]]}


def _can_carry(entry: Document, taken: list[Document]) -> bool:
    is_light: bool = entry["load"] + items.weight_of(taken) <= entry["limit"]
    return is_light and entry["count"] + len(taken) <= MAX_ITEMS


def _require_carried(room: Document, entry: Document, taken: list[Document]) -> None:
    """Requires that the character can carry these items as well. Raises LimitReached."""
    if entry["count"] + len(taken) > MAX_ITEMS:
        raise LimitReached(f"A character carries at most {MAX_ITEMS} items.", MAX_ITEMS)
    if entry["load"] + items.weight_of(taken) > entry["limit"]:
        pounds = entry["limit"] // items.POUND
        raise LimitReached(f"{entry['name']} carries at most {pounds:,} pounds.", pounds)
    _require_passing(room, taken)


def _require_passing(room: Document, taken: list[Document]) -> None:
    """Requires that these items as well can change hands in the room. Raises LimitReached."""
    passing = (item for one in room["characters"] for item in (*one["took"], *one["gifts"]))
    if _bytes_of(passing) + _bytes_of(taken) > MAX_BYTES_IN_PASSING:
        raise LimitReached("Too many items change hands in this room. Try again.", MAX_BYTES_IN_PASSING)


def _leaves(entry: Document, step: Document) -> bool:
    if step["kind"] == REST:
        return bool(entry["since"] <= step["before"])
    return step["kind"] in (LEAVE, REMOVE)


def _bytes_of(some: Iterable[Document]) -> int:
    """Returns an upper bound of the size of the items: UTF-8 needs up to 4 bytes a character."""
    return sum(_BYTES_BESIDES_TEXT + 4 * (len(item["name"]) + len(item["description"])) for item in some)


_ACTIONS: dict[str, Callable[[Document, Document, Any], _Result]] = {
    STAY: _nothing,
    LEAVE: _nothing,
    REST: _nothing,
    REMOVE: _remove,
    PICK_UP: _pick_up,
    TAKE_OUT: _take_out,
    DROP: _drop,
    PUT_IN: _put_in,
    GIVE: _give,
    BUY: _buy,
    SELL: _sell,
}
# A move cannot be refused by the room that the character leaves.
REFUSABLE = set(_ACTIONS) - {LEAVE}
