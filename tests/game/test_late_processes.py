"""A process is suspended before any of its commands, while others finish its turn and go on."""

from __future__ import annotations

import itertools

import pytest

from portico.gateway.settings import Settings
from tests.game.support.machine import Machine, State
from tests.game.support.model import Call, Keeper, Setting, Thing, World
from tests.game.support.worlds import machine_of
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs, running, some_of_part
from tests.support.interruptions import database_of, interrupted

SETTING = Setting(
    exits={"shop": {"N": "cave"}, "cave": {"S": "shop"}},
    keepers={"smith": Keeper("shop", ("WEAPON",), asks=100, pays=50)},
    strength={"ann": 12, "bob": 12},
    things={name: Thing(1, 4, "WEAPON", hands=1) for name in ("lying", "carried", "sold")},
)
WORLD = World(
    setting=SETTING,
    rooms=dict.fromkeys(SETTING.strength, "shop"),
    gold={"ann": 100, "bob": 100, "smith": 50},
    places={"lying": ("floor", "shop"), "carried": ("floor", "shop"), "sold": ("stock", "smith")},
)
CALLS = {
    "move": Call("move", "ann", target="N"),
    "pickUp": Call("pickUp", "ann", "lying"),
    "drop": Call("drop", "ann", "carried"),
    "give": Call("give", "ann", "carried", "bob"),
    "buy": Call("buy", "ann", "sold", "smith"),
    "sell": Call("sell", "ann", "carried", "smith"),
    "wield": Call("wield", "ann", "carried", "LEFT"),
}
# The suspended call, with the same key.
AGAIN = Call("again", "ann")
# What happens while the process is suspended.
MEANWHILE = {
    "the jobs run": [],
    "the character goes away and comes back": [
        Call("move", "ann", target="N"),
        Call("move", "ann", target="S"),
        Call("move", "ann", target="N"),
    ],
    "the call is repeated": [AGAIN, Call("move", "ann", target="N"), Call("move", "ann", target="S")],
    "another one reaches for the same things": [
        Call("pickUp", "bob", "lying"),
        Call("buy", "bob", "sold", "smith"),
        Call("pickUp", "bob", "carried"),
        Call("drop", "bob", "lying"),
    ],
}
_numbers = itertools.count()


def keyed(call: Call) -> Call:
    return Call(call.action, call.actor, call.item, call.target, f"late {next(_numbers)}")


@pytest.mark.sample(3)
@pytest.mark.parametrize("action", CALLS)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_a_process_that_resumes_late_neither_loses_nor_doubles_anything(
    gateway: GatewayClient, settings: Settings, clock: SettableClock, action: str, meanwhile: str
) -> None:
    async with running(settings, clock=clock) as other:
        for stop in some_of_part(list(MEANWHILE).index(meanwhile), of=len(MEANWHILE)):
            if not await is_interrupted(gateway, other, clock, CALLS[action], MEANWHILE[meanwhile], stop):
                assert stop > 0
                return


async def is_interrupted(
    gateway: GatewayClient, other: GatewayClient, clock: SettableClock, call: Call, meanwhile: list[Call], stop: int
) -> bool:
    """Suspends the call before its command of this number. Returns whether it has so many."""
    late = keyed(call)
    machine = await machine_of(gateway, clock, WORLD, start="shop")
    others = Machine(other, clock, SETTING, machine.ids, [State(WORLD)])
    held = keyed(Call("pickUp", "ann", "carried"))
    others.learn(held, await machine.ask(held))
    others.crashed = [late]
    is_late = False
    repeated: list[str] = []

    async def overtake() -> None:
        nonlocal is_late
        is_late = True
        # In the second run, the rooms forget what the turns of the first one have given.
        for _ in range(2):
            clock.advance(seconds=31)
            await run_jobs(other, clock)
        for one in meanwhile:
            if one is AGAIN:
                repeated.append((await others.ask(late))["__typename"])
                others.conclude(late, repeated[0])
                others.crashed = []
            else:
                again = keyed(one)
                others.learn(again, await others.ask(again))

    with database_of(gateway, interrupted(gateway.state.database, None, None, overtake, skip=stop)):
        answer = await machine.ask(late)
    if repeated:
        assert answer["__typename"] == repeated[0]
    else:
        others.conclude(late, answer["__typename"])
    await others.settle()
    await assert_invariants(gateway)
    return is_late
