"""The members of unions that the world and the inventories share."""

from portico.resolvers.game.refusals import LimitReached
from portico.schema.errors import failure

__all__ = ("LimitReached",)

failure(
    "A bound of the game is reached, e.g. the weight that the character can carry.",
    limit="The bound, in the unit that the message names.",
)(LimitReached)
