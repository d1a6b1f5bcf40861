"""Inventories of any size, their stacks, and trades. The mutations are in `trading`."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.loaders.game.inventories import trades as loaders
from portico.resolvers.errors import NotFound
from portico.resolvers.game.inventories import stacks, trade_records
from portico.resolvers.game.inventories.stacks import Place, StackDocument
from portico.resolvers.game.inventories.trade_records import TradeDocument
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.texts import trimmed
from portico.schema.connections import Connection, Paged
from portico.schema.context import Caller, Context, Info, core
from portico.schema.fields import Source, as_type, composed, reads, stored
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.nodes import load
from portico.schema.parts import digest_of, part_id
from portico.schema.reading import load_one
from portico.schema.scalars import BigInt

DEFAULT_STACKS = 50
DEFAULT_TRADES = 20


def viewer_of(context: Context) -> stacks.Viewer:
    return stacks.Viewer(context.subject, context.has_role(GAME_MASTER))


def _sees_stack(stack: StackDocument, context: Context) -> bool:
    return viewer_of(context).sees(Place(stack["owner"], stack["inventory"]))


def _takes_part(trade: TradeDocument, context: Context) -> bool:
    return any(map(viewer_of(context).owns, trade["owners"]))


STACK = Kind.of(
    "Stack",
    stacks.STACKS,
    parse=stacks.parse_id,
    reads=("owner", "inventory", "quantity"),
    visible_to=_sees_stack,
)
TRADE = Kind.of(
    "Trade",
    trade_records.TRADES,
    read=loaders.by_id,
    reads=("owners",),
    visible_to=_takes_part,
)
STACK_PAGES = Paged.of(
    STACK,
    stacks.STACKS,
    counts=lambda context, wanted: viewer_of(context).sees(Place(wanted["owner"], wanted["inventory"])),
)
TRADE_PAGES = Paged.of(
    TRADE, trade_records.TRADES, counts=lambda context, wanted: viewer_of(context).owns(wanted["owners"])
)


@strawberry.enum(description="The order of the stacks of an inventory.")
class StackSort(Enum):
    CATEGORY = strawberry.enum_value("CATEGORY", description="By category, then item id.")
    NAME = strawberry.enum_value("NAME", description="By name, in any case.")


def _order(sort: StackSort) -> stacks.SortName:
    return "NAME" if sort is StackSort.NAME else "CATEGORY"


@strawberry.enum(description="The state of a trade.")
class TradeState(Enum):
    OFFERED = strawberry.enum_value(
        "OFFERED", description="Waiting for the other side. The trade holds what was offered."
    )
    ACCEPTED = strawberry.enum_value(
        "ACCEPTED", description="Agreed: both sides will get what they are due, even after a crash."
    )
    SETTLED = strawberry.enum_value("SETTLED", description="Finished: both sides have what they are due.")
    CANCELLED = strawberry.enum_value(
        "CANCELLED", description="Cancelled, or expired: what was offered was given back."
    )


@strawberry.type(description="A number of items of one kind in an inventory, with everything that you need to show it.")
class Stack(Node):
    id: strawberry.ID = node_id("Stack", "_id")
    category: str = stored(description="The category of the item, for example `weapon`.")
    item_id: str = stored(description="The item within the category.")
    name: str = stored(description="The name of the item.")
    description: str | None = stored(description="What the item is; null for no description.")
    image: str | None = stored(description="The address of an image, or its path on your site; null for no image.")
    quantity: BigInt = stored(description="The number of items. A stack that has become empty is in no list.")
    held_in: "Inventory" = composed(
        {"owner": "owner", "name": "inventory"}, description="The inventory that has the stack."
    )


@strawberry.type(description="An item and a quantity in a trade.")
class TradeLine:
    category: str = stored(description="The category of the item.")
    item_id: str = stored(description="The item within the category.")
    quantity: BigInt = stored(description="The number of items.")


@strawberry.type(description="A trade between two inventories of different owners. Only both owners can see it.")
class Trade(Node):
    id: strawberry.ID = node_id("Trade", "_id")
    state: TradeState = stored(description="The state of the trade.")
    from_: str = stored("from.owner", name="from", description="The owner who made the offer.")
    from_inventory: str = stored("from.inventory", description="The inventory of the owner who made the offer.")
    to: str = stored("to.owner", description="The owner who can accept the offer.")
    to_inventory: str = stored("to.inventory", description="The inventory of the owner who can accept the offer.")
    offers: list[TradeLine] = stored(length=trade_records.MAX_LINES, description="What the offering owner gives.")
    wants: list[TradeLine] = stored(length=trade_records.MAX_LINES, description="What the offering owner gets.")
    created_at: datetime = stored(description="When the trade was offered.")

    @reads(
        "state",
        "created_at",
        description="When the offer expires: it is then cancelled. Null for a trade that was accepted or cancelled, "
        "and if offers do not expire.",
    )
    @staticmethod
    def expires_at(root: strawberry.Parent[TradeDocument], info: Info) -> datetime | None:
        after = info.context.resources.of(GameSettings).trade_expires_after
        if after is None or root["state"] != trade_records.OFFERED:
            return None
        expires: datetime = root["created_at"] + after
        return expires


@strawberry.type(
    description="An inventory of any size: a player's bag or bank, a shop's shelf, an NPC's pockets. "
    "The names of the owner and of the inventory find it. It needs no creation, and can be empty."
)
class Inventory:
    id: strawberry.ID = part_id("Inventory", lambda one: digest_of(one["owner"], one["name"]), "owner", "name")
    owner: str = stored(description="The owner: the subject of a player, or `npc:` and the name of a shop or an NPC.")
    name: str = stored(description="The name of the inventory, for example `bag`.")

    @reads("owner", "name", description="The stacks of the inventory, without empty ones.")
    @staticmethod
    async def stacks(
        root: strawberry.Parent[Source],
        info: Info,
        category: Annotated[str | None, described("Only the stacks of this category.")] = None,
        name_prefix: Annotated[
            str | None,
            described("Only stacks whose name begins with this, in any case. They are always sorted by name."),
        ] = None,
        sort: Annotated[StackSort, described("The order.")] = StackSort.CATEGORY,
        first: First = DEFAULT_STACKS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[Stack]:
        place, span = Place(root["owner"], root["name"]), Span(first, after, last, before)
        wanted: dict[str, Any] = {"category": category, "name_prefix": name_prefix, "sort": _order(sort)}
        listing = span.beside(DEFAULT_STACKS, stacks.listing, place, **wanted)
        page = await STACK_PAGES.spanned(info, listing, span, default=DEFAULT_STACKS)
        return Connection(page=page)

    @reads("owner", "name", description="The stack of an item; null if the inventory has none of it.")
    @staticmethod
    async def stack(
        root: strawberry.Parent[Source],
        info: Info,
        category: Annotated[str, described("The category of the item.")],
        item_id: Annotated[str, described("The item within the category.")],
    ) -> Stack | None:
        key = stacks.stack_id(Place(root["owner"], root["name"]), trimmed(category), trimmed(item_id))
        found = await load(core(info), STACK, key)
        if isinstance(found, Exception):
            raise found
        return as_type(Stack, found if found and found["quantity"] else None)


@strawberry.type
class InventoryQuery:
    @strawberry.field(
        description="One of the viewer's own inventories, or any inventory for a GAME_MASTER. Everybody can see the "
        "inventories with the names `shop` and `npc`. Null for other inventories."
    )
    def inventory(
        self,
        info: Info,
        owner: Annotated[
            str, described("The owner: the subject of a player, or `npc:` and the name of a shop or an NPC.")
        ],
        name: Annotated[str, described("The name of the inventory.")] = "bag",
    ) -> Inventory | None:
        place = Place(owner, name)
        shown = {"owner": owner, "name": name} if viewer_of(info.context).sees(place) else None
        return as_type(Inventory, shown)

    @strawberry.field(description="A trade; null if the viewer takes no part in it.")
    async def trade(
        self, info: Info, id: Annotated[strawberry.ID, described("The `id` of the trade.")]
    ) -> Trade | None:
        try:
            key = Kind.key_in(info.context, TRADE.name, id)
        except NotFound:
            return None
        return as_type(Trade, await load_one(info, TRADE, key))


@strawberry.type
class TradeViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The trades that the viewer has offered or was offered, latest first.")
    async def trades(
        self,
        info: Info,
        state: Annotated[TradeState | None, described("Only the trades in this state.")] = None,
        first: First = DEFAULT_TRADES,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[Trade] | None:
        listing = trade_records.listing(self.caller.subject, None if state is None else state.name)
        page = await TRADE_PAGES.spanned(info, listing, Span(first, after, last, before), default=DEFAULT_TRADES)
        return Connection(page=page)
