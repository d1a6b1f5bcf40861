"""Tries the mutations of a kit in every way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from .effects import effect_of
from .gateways import Gateway, SettableClock
from .kits import Given, Kit
from .stages import Case, Stage
from .ways import WAYS


async def try_mutation(
    gateway: Gateway, clock: SettableClock, kit: Kit, mutation: str, way: str, *, whole: bool = False
) -> None:
    """Tries a call with the first inputs of a kit in one of `WAYS`: it has one effect, and all invariants hold.

    Use it as the body of a test with all mutations of the kit in all ways. Each run tries some of the places where the
    call can be stopped. With `whole`, it tries all of them.
    """
    await WAYS[way](stage_of(kit, mutation)(gateway, clock), mutation, whole)


def stage_of(kit: Kit, mutation: str) -> type[Stage]:
    """Returns a stage for a call with the first inputs of a kit. Its only case has the name of the mutation.

    The state after it is that after a call which nothing disturbs.
    """
    undisturbed: list[Any] = []

    class Inputs(Stage):
        cases: ClassVar[Mapping[str, Case]] = {
            mutation: Case(mutation, lambda stage: stage.given, "", lambda _: undisturbed[0])
        }
        least = (1, 1)
        given: Given

        async def build(self) -> None:
            self.collections = [spec.name for spec in self.gateway.domains.collections]
            self.given, _ = await kit.inputs[mutation](self.gateway)

        async def state(self) -> Any:
            return await (kit.state or effect_of)(self.gateway)

        async def restore(self) -> None:
            await super().restore()
            if not undisturbed:
                found = await self.typename_of(mutation, {"idempotencyKey": "the key", **self.given})
                assert found.endswith("Payload"), (mutation, found)
                await self.run_jobs()
                undisturbed.append(await self.state())
                await super().restore()

        async def _empty(self) -> None:
            """Nothing is known in advance: each check looks for the domains without documents, and skips them."""

    return Inputs
