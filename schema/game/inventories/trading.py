"""The mutations of stacks and trades."""

import asyncio
from typing import Annotated

import strawberry

from portico.resolvers.documents import Document
from portico.resolvers.game.inventories import new_records, stack_edits, stack_refusals, trade_edits, trade_records
from portico.resolvers.game.inventories.stacks import Place, Wanted, stack_id
from portico.resolvers.game.inventories.trade_records import MAX_LINES
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.texts import trimmed
from portico.schema.connections import Edge, edge_of
from portico.schema.context import Info, core
from portico.schema.errors import Conflict, InvalidInput, NotFound, UserError, member
from portico.schema.fields import as_document, as_type, costs, kept_privately
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.game.refusals import LimitReached
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind
from portico.schema.mutations import mutation
from portico.schema.nodes import load
from portico.schema.reading import load_one
from portico.schema.scalars import BigInt
from portico.schema.viewer import ShowsViewer

from .stacks import STACK, Stack, Trade, viewer_of


@strawberry.input(description="An inventory.")
class InventoryRef:
    owner: str = strawberry.field(
        description="The owner: the subject of a player, or `npc:` and the name of a shop or an NPC."
    )
    name: str = strawberry.field(default="bag", description="The name of the inventory, up to 64 characters.")

    def place(self) -> Place:
        return Place(self.owner, self.name)


@strawberry.input(description="An item and a quantity.")
class StackInput:
    category: str = strawberry.field(description="The category of the item.")
    item_id: str = strawberry.field(description="The item within the category.")
    quantity: BigInt = strawberry.field(description="The number of items, at least 1.")

    def wanted(self) -> Wanted:
        return Wanted(self.category, self.item_id, int(self.quantity))


@strawberry.input(description="New items, for the GAME_MASTER role.")
class GrantInput:
    to: InventoryRef = strawberry.field(description="The inventory that gets the items.")
    category: str = strawberry.field(description="The category of the item, up to 100 characters.")
    item_id: str = strawberry.field(description="The item within the category, up to 200 characters.")
    name: str = strawberry.field(description="The name of the item, up to 200 characters.")
    description: str | None = strawberry.field(
        default=None, description="What the item is, up to 10,000 characters; null for no description."
    )
    image: str | None = strawberry.field(
        default=None, description="An http or https address, or a path that begins with a slash; null for no image."
    )
    quantity: BigInt = strawberry.field(description="The number of items, at least 1.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.input(description="Items to use up.")
class ConsumeInput:
    from_: InventoryRef = strawberry.field(name="from", description="One of the viewer's inventories.")
    stack: StackInput = strawberry.field(description="The item, and how many of it.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.input(
    description="Items to move between two inventories of the same owner. A GAME_MASTER can also move them from the "
    "owner `name` to `npc:name`."
)
class TransferStackInput:
    from_: InventoryRef = strawberry.field(name="from", description="The inventory that gives the items.")
    to: InventoryRef = strawberry.field(description="Another inventory of the same owner.")
    stack: StackInput = strawberry.field(description="The item, and how many of it.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.input(
    description="A trade. One side can be empty: without `wants` it is a gift, without `offers` a request."
)
class OfferTradeInput:
    from_: InventoryRef = strawberry.field(
        name="from", description="One of the viewer's inventories. It gives `offers` and gets `wants`."
    )
    to: InventoryRef = strawberry.field(description="An inventory of another owner, who can accept the trade.")
    offers: list[StackInput] = strawberry.field(description="Up to 20 items. The trade holds them from now on.")
    wants: list[StackInput] = strawberry.field(
        description="Up to 20 items that the other owner gives, none of which is in `offers`."
    )
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.input(description="A trade to accept or to cancel.")
class TradeInput:
    id: strawberry.ID = strawberry.field(description="The `id` of the trade.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The stack after the write.")
class StackPayload(ShowsViewer):
    stack: Stack | None = strawberry.field(description="The current stack. Its quantity can be 0.")
    source: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(
        name="from",
        description="After a transfer, the stack that has given the items. Its quantity can be 0. Otherwise null.",
    )
    async def from_(self, info: Info) -> Stack | None:
        key = None if self.source is None else self.source["_id"]
        return None if key is None else as_type(Stack, await load_one(info, STACK, key))


@strawberry.type(description="The trade after the write.")
class TradePayload(ShowsViewer):
    trade: Trade = strawberry.field(description="The current trade.")

    @strawberry.field(
        metadata=costs(length=4 * MAX_LINES),
        description="The viewer's stacks of the items of the trade; for a GAME_MASTER, also those of the other owner. "
        "Their quantities can be 0.",
    )
    async def stacks(self, info: Info) -> list[Stack]:
        keys = trade_records.stacks_of(as_document(self.trade), viewer_of(info.context))
        found = await asyncio.gather(*(load(core(info), STACK, key) for key in keys))
        return as_type(list[Stack], [stack for stack in found if stack is not None])

    @strawberry.field(description="The trade as a row of `viewer.trades`; null for a trade between others.")
    def trade_edge(self, info: Info) -> Edge[Trade] | None:
        subject, trade = info.context.subject, as_document(self.trade)
        if subject is None or subject not in trade["owners"]:
            return None
        return edge_of(info.context, trade_records.TRADES.name, trade_records.listing(subject, None), trade)


@member(stack_refusals.NotEnough)
@strawberry.type(description="The inventory does not hold enough of an item.")
class NotEnough(UserError):
    available: BigInt = strawberry.field(description="The number of items that the inventory holds.")


GrantResult = Annotated[
    StackPayload | InvalidInput, strawberry.union("GrantResult", description="The result of a grant.")
]
StackResult = Annotated[
    StackPayload | NotEnough | NotFound | InvalidInput,
    strawberry.union("StackResult", description="The result of a change of a stack."),
]
TradeResult = Annotated[
    TradePayload | NotEnough | LimitReached | NotFound | Conflict | InvalidInput,
    strawberry.union("TradeResult", description="The result of a change of a trade."),
]


def _stack(stack: Document) -> StackPayload:
    return StackPayload(stack=as_type(Stack, stack))


def _trade(trade: Document) -> TradePayload:
    return TradePayload(trade=as_type(Trade, trade))


@strawberry.type
class TradingMutation:
    @mutation(role=GAME_MASTER, description="Puts new items into an inventory. For a GAME_MASTER.")
    async def grant(self, info: Info, input: GrantInput) -> GrantResult | None:
        granted = await stack_edits.grant(
            info.context.db,
            to=input.to.place(),
            wanted=Wanted(input.category, input.item_id, int(input.quantity)),
            name=input.name,
            description=input.description,
            image=input.image,
            operation_id=info.context.operation_id,
        )
        return _stack(granted)

    @mutation(settles=True, description="Uses up items of one of the viewer's inventories.")
    async def consume(self, info: Info, input: ConsumeInput) -> StackResult | None:
        info.context.require_caller()
        consumed = await stack_edits.consume(
            info.context.db,
            viewer=viewer_of(info.context),
            source=input.from_.place(),
            wanted=input.stack.wanted(),
            **info.context.operation,
            answering=info.context.answering,
        )
        return _stack(consumed)

    @mutation(
        settles=True,
        is_decided=new_records.is_inserted,
        description="Moves items between two inventories of the viewer: all of them or none. "
        "Returns the stack that receives them.",
    )
    async def transfer_stack(self, info: Info, input: TransferStackInput) -> StackResult | None:
        info.context.require_caller()
        received = await stack_edits.transfer_stack(
            info.context.db,
            viewer=viewer_of(info.context),
            source=input.from_.place(),
            to=input.to.place(),
            wanted=input.stack.wanted(),
            **info.context.operation,
            answering=info.context.answering,
        )
        place, wanted = input.from_.place(), input.stack
        given = stack_id(place, trimmed(wanted.category), trimmed(wanted.item_id))
        return StackPayload(stack=as_type(Stack, received), source={"_id": given})

    @mutation(
        settles=True,
        is_decided=new_records.is_inserted,
        description="Offers items to another owner. The trade holds them until it is accepted, cancelled or expires. "
        "An owner can have 20 open offers to another one.",
    )
    async def offer_trade(self, info: Info, input: OfferTradeInput) -> TradeResult | None:
        info.context.require_caller()
        offered = await trade_edits.offer_trade(
            info.context.db,
            viewer=viewer_of(info.context),
            source=input.from_.place(),
            to=input.to.place(),
            offers=[line.wanted() for line in input.offers],
            wants=[line.wanted() for line in input.wants],
            **info.context.operation,
            answering=info.context.answering,
        )
        return _trade(offered)

    @mutation(
        settles=True,
        description="Accepts a trade that the viewer was offered. "
        "Both sides get what they are due, or nothing changes.",
    )
    async def accept_trade(self, info: Info, input: TradeInput) -> TradeResult | None:
        info.context.require_caller()
        accepted = await trade_edits.accept_trade(
            info.context.db,
            viewer=viewer_of(info.context),
            trade_id=Kind.key_in(info.context, "Trade", input.id),
            expire_after=info.context.resources.of(GameSettings).trade_expires_after,
            **info.context.operation,
            answering=info.context.answering,
        )
        return _trade(accepted)

    @mutation(
        settles=True, description="Gives back what was offered. Either side can do this before the trade is accepted."
    )
    async def cancel_trade(self, info: Info, input: TradeInput) -> TradeResult | None:
        info.context.require_caller()
        cancelled = await trade_edits.cancel_trade(
            info.context.db,
            viewer=viewer_of(info.context),
            trade_id=Kind.key_in(info.context, "Trade", input.id),
            **info.context.operation,
            answering=info.context.answering,
        )
        return _trade(cancelled)
