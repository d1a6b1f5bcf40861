"""Players act in any order, with crashes anywhere: the world stays one that the answers allow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.game.support.machine import ACTIONS, STEPS, Machine, Step
from tests.game.support.model import Keeper, Setting, Thing, World
from tests.game.support.worlds import machine_of
from tests.support.harness import GatewayClient, SettableClock, assert_invariants
from tests.support.machines import examples, step_lists

SETTING = Setting(
    exits={"square": {"N": "shop", "E": "cave"}, "shop": {"S": "square"}, "cave": {"N": "square", "E": "cave"}},
    keepers={"smith": Keeper("shop", ("WEAPON", "ARMOR"), asks=150, pays=50)},
    # Three pounds in strength carry 45 pounds.
    strength={"ann": 3, "bob": 12, "cem": 12},
    things={
        "sword": Thing(3, 10, "WEAPON", hands=1),
        "dagger": Thing(1, 2, "WEAPON", hands=1),
        "axe": Thing(7, 30, "WEAPON", hands=2),
        "helmet": Thing(2, 5, "ARMOR", regions=("HEAD",)),
        "anvil": Thing(40, None, "OTHER"),
        "lamp": Thing(1, 400, "OTHER"),
        "chest": Thing(25, 5, "CONTAINER", capacity=60),
        "bag": Thing(1, 2, "CONTAINER", capacity=20),
        "pouch": Thing(0.5, 1, "CONTAINER", capacity=4),
    },
)
PLACES = {
    "sword": ("floor", "square"),
    "dagger": ("inside", "bag"),
    "axe": ("stock", "smith"),
    "helmet": ("stock", "smith"),
    "anvil": ("floor", "square"),
    "lamp": ("stock", "smith"),
    "chest": ("floor", "cave"),
    "bag": ("floor", "square"),
    "pouch": ("inside", "chest"),
}
WORLD = World(
    setting=SETTING,
    rooms=dict.fromkeys(SETTING.strength, "square"),
    gold={"ann": 100, "bob": 100, "cem": 100, "smith": 20},
    places=PLACES,
)


async def play(gateway: GatewayClient, clock: SettableClock, steps: list[Step]) -> Machine:
    """Takes the steps in a new world, and settles it."""
    machine = await machine_of(gateway, clock, WORLD, start="square")
    for step in steps:
        await machine.take(step)
    await machine.settle()
    return machine


@examples()
@given(steps=step_lists(STEPS))
async def test_the_world_is_one_that_the_answers_allow_after_any_crashes(
    gateway: GatewayClient, clock: SettableClock, steps: list[Step]
) -> None:
    await play(gateway, clock, steps)
    await assert_invariants(gateway)


@examples(short=3)
@given(
    steps=step_lists(
        st.builds(
            Step,
            name=st.just("act"),
            action=st.sampled_from(ACTIONS),
            actor=st.integers(0, 99),
            item=st.integers(0, 99),
            target=st.integers(0, 99),
            wish=st.integers(0, 99),
            stop=st.just(0),
        )
    )
)
async def test_each_answer_shows_the_character_and_its_room_as_the_rules_say(
    gateway: GatewayClient, clock: SettableClock, steps: list[Step]
) -> None:
    machine = await play(gateway, clock, steps)
    assert len(machine.possible) == 1
