"""What the domain game tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit, merged, read_budgets
from tests.game.support import cases, leftovers, seeds, stack_cases, stages, trades_stage
from tests.support.selections import INVALID, NOT_FOUND

_STACK = "... on StackPayload { stack { id category itemId name description image quantity } }"
_TRADE = (
    "... on TradePayload { trade { id state from to offers { category itemId quantity } "
    "wants { category itemId quantity } } }"
)
_CHARACTER = (
    "... on CharacterPayload { character { id name gold location { locationId name characters { characterId name } "
    "inventory { id contents { id } } } inventory { id contents { id } } armor { head { id } } "
    "weapons { left { id } right { id } both { id } } } }"
)
_GONE = f"... on ItemGone {{ itemId }} ... on LimitReached {{ limit }} {NOT_FOUND}"
_NOT_ENOUGH = "... on NotEnough { available }"
MUTATIONS = {
    "grant": f"{_STACK} ... on InvalidInput {{ path }}",
    **dict.fromkeys(("consume", "transferStack"), f"{_STACK} {INVALID} {_NOT_ENOUGH}"),
    **dict.fromkeys(("offerTrade", "acceptTrade", "cancelTrade"), f"{_TRADE} {INVALID} {_NOT_ENOUGH}"),
    "createCharacter": f"{_CHARACTER} ... on LimitReached {{ limit }} ... on InvalidInput {{ path }}",
    "move": f"{_CHARACTER} ... on LimitReached {{ limit }} {NOT_FOUND}",
    **dict.fromkeys(
        ("pickUp", "drop", "takeOut", "putIn", "wear", "wield", "unequip", "give"), f"{_CHARACTER} {_GONE}"
    ),
    **dict.fromkeys(("buy", "sell"), f"{_CHARACTER} {_GONE} ... on InsufficientGold {{ price gold }}"),
    "moveCharacter": "... on MoveCharacterPayload { character { id name location { locationId name } } "
    f"from {{ id name }} to {{ id name characters {{ name }} }} }} ... on LimitReached {{ limit }} {NOT_FOUND}",
    "deleteCharacter": "... on DeleteCharacterPayload { deletedId location { id name inventory { id } } } "
    f"... on LimitReached {{ limit }} {NOT_FOUND}",
    "spawnCharacter": f"{_CHARACTER} ... on LimitReached {{ limit }} {INVALID}",
}


KIT = Kit(
    adds=("createCharacter", "Character"),
    mutations=MUTATIONS,
    inputs=merged([cases.CASES, stack_cases.CASES]),
    failures=merged([cases.FAILURES, stack_cases.FAILURES]),
    unfailed=cases.ELSEWHERE | stack_cases.ELSEWHERE,
    leftovers={
        "finish-turns": (leftovers.unfinished_turn,),
        "settle-rooms": (
            leftovers.stale_room,
            leftovers.room_with_gift,
            leftovers.room_with_outcome,
            leftovers.room_with_entry,
        ),
        "finish-trades": (leftovers.noted_stack, leftovers.accepted_trade),
        "rest-characters": (leftovers.idle_character,),
        "expire-trades": (leftovers.old_offer,),
        "prune-trades": (leftovers.old_trade,),
    },
    budgets=read_budgets(__file__),
    scattered={
        "aggregate game.locations ",
        "find game.characters action.since",
        "find game.locations gifts_since",
        "find game.locations leaving_since",
        "find game.locations took_since",
        "find game.locations stale_since",
        "find game.locations characters.since",
        "find game.trades created_at no_room_at state",
        "find game.trades concluded_at created_at state",
        "find game.trades no_room_at state",
        "find game.stacks notes.at",
        "find game.stacks ",
        "aggregate game.stacks $expr",
        "find game.trades open_since",
    },
    stages=(
        trades_stage.Trades,
        trades_stage.Consumptions,
        stages.Turns,
        stages.OwnInventory,
        stages.Keeping,
        stages.Resting,
        stages.Waking,
    ),
    seed=seeds.seed,
)
