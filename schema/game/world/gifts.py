"""What characters have received of others."""

from datetime import datetime

import strawberry

from portico.resolvers.game.world.gift_records import GIFTS, GiftDocument
from portico.schema.context import Context
from portico.schema.fields import computed, stored
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.kinds import Kind, Node, node_id

from .items import ITEM, description_of
from .locations import CharacterBrief


def _is_receiver(gift: GiftDocument, context: Context) -> bool:
    return context.has_role(GAME_MASTER) or (context.subject is not None and gift["owner"] == context.subject)


GIFT = Kind.of("Gift", GIFTS, reads=("owner",), visible_to=_is_receiver)


@strawberry.type(
    description="An item that a character has given to one of another player. The player who has received it and a "
    "GAME_MASTER see it, for a year."
)
class Gift(Node):
    id: strawberry.ID = node_id("Gift", "_id")
    given_item_id: strawberry.ID = computed(
        lambda gift: Kind.encode_id(ITEM, gift["item"]["_id"]), "item._id", description="The `id` of the item."
    )
    description: str = computed(
        lambda gift: description_of(gift["item"]),
        "item.description",
        "item.quantity",
        "item.bonus",
        description="The item for display, as it was then, e.g. `+3 wizard's hat`.",
    )
    giver: CharacterBrief = stored(description="The character that gave it.")
    receiver: CharacterBrief = stored(description="The character that received it.")
    given_at: datetime = stored(description="When it was given.")
