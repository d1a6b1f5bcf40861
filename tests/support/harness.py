"""The project's own test harness, in addition to `portico.testing`."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from portico.gateway.clock import Clock
from portico.gateway.settings import Settings
from portico.resolvers.cursors import Cursors
from portico.resolvers.documents import Document
from portico.resolvers.paging import Key, Listing
from portico.schema.ads.advertisers import ADVERTISER
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.roles import Role
from portico.testing import Answer, Commands, Gateway, SettableClock, assert_invariants, run_jobs
from portico.testing.gateways import SECRET, running_as
from portico.testing.ways import places
from tests.support.kits import MUTATIONS

# Tests import these names of the public harness from here.
__all__ = ["MUTATIONS", "SECRET", "Answer", "Commands", "SettableClock", "assert_invariants", "run_jobs"]

# Whether long tests run, as in `make soak`.
IS_SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
_numbers = itertools.count(1)


def with_settings(settings: Settings, kind: type, **fields: Any) -> Settings:
    """Returns the settings with these settings of a domain."""
    return replace(settings, slices={**settings.slices, kind: kind(**fields)})


@dataclass
class GatewayClient(Gateway):
    """A gateway whose caller has all roles but ADMIN and ANALYST. Other roles can be chosen."""

    roles: Sequence[Role] = field(default=(MERCHANT, Role.SERVICE, Role.EDITOR, GAME_MASTER, ADVERTISER))

    def cursor(self, listing: Listing, key: Key) -> str:
        """Returns the cursor of a position in a list, as the gateway makes it."""
        return self.state.resources.of(Cursors).encode(listing.binding(), key)

    async def result(self, mutation: str, given: Mapping[str, Any], **options: Any) -> Any:
        """Calls a mutation, e.g. `result("createCategory", {...})`. Returns its union member."""
        text = MUTATIONS[mutation]
        return (await self.data(text, {"input": dict(given)}, **options))[mutation]

    async def payload(self, mutation: str, given: Mapping[str, Any], **options: Any) -> Any:
        """Calls a mutation that must succeed. Returns its payload."""
        found = await self.result(mutation, given, **options)
        assert found["__typename"].endswith("Payload"), found
        return found

    @property
    def clock(self) -> SettableClock:
        """The clock of a gateway that was started with one."""
        assert isinstance(self.state.clock, SettableClock)
        return self.state.clock

    async def run_jobs(self, *names: str, **later: float) -> int:
        """Runs the jobs, or those with these names, at once or later: `run_jobs("finish-stock", seconds=6)`."""
        self.clock.advance(**later)
        return await run_jobs(self, self.clock, *names)

    async def stored(self, collection: str, query: Mapping[str, Any] | None = None, **options: Any) -> Document:
        """Returns a stored document that matches. There must be one."""
        found = await self.db[collection].find_one(query or {}, **options)
        assert found is not None, query
        return found


def running(
    settings: Settings, *, clock: Clock | None = None, commands: Commands | None = None
) -> AbstractAsyncContextManager[GatewayClient]:
    """Starts a gateway, and stops it at the end of the block."""
    return running_as(GatewayClient, settings, clock=clock, commands=commands)


def new_key() -> str:
    """Returns an idempotency key that no other test has, so that the order of the tests changes nothing."""
    return f"key-{next(_numbers)}"


def category_input(**fields: Any) -> dict[str, Any]:
    """A valid `CreateCategoryInput`."""
    number = next(_numbers)
    return {"name": f"Category {number}", "slug": f"category-{number}", **fields}


def product_input(**fields: Any) -> dict[str, Any]:
    """A valid `CreateProductInput`."""
    number = next(_numbers)
    return {
        "sku": f"SKU-{number}",
        "type": "Audio Album",
        "title": f"Album {number}",
        "pricing": {"list": {"amount": 1200}, "retail": {"amount": 1100}},
        "details": {"artist": "John Coltrane", "genres": ["Jazz"], "tracks": ["Acknowledgement"]},
        **fields,
    }


async def create_category(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await gateway.payload("createCategory", category_input(**fields)))["category"]
    return found


async def create_product(gateway: GatewayClient, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await gateway.payload("createProduct", product_input(**fields)))["product"]
    return found


async def rename_product(gateway: GatewayClient, product: Mapping[str, Any], title: str) -> dict[str, Any]:
    given = {"id": product["id"], "nonce": product["nonce"], "title": title}
    found: dict[str, Any] = (await gateway.result("updateProduct", given))["product"]
    return found


def stops() -> Iterator[int]:
    """Yields the numbers of changes to crash after, or of commands to pause before."""
    return itertools.count(0)


def some_stops(of: int = 3) -> Iterator[int]:
    """Yields every n-th stop for n = `of`, and others in each run. In a soak, yields all of them."""
    return places(of, whole=IS_SOAK)


def part_of_stops(part: int, *, of: int) -> Iterator[int]:
    """Yields one of so many equal parts of the stops, so that a test's cases together take each stop once.

    Any number selects a part. In a soak, yields all stops.
    """
    return stops() if IS_SOAK else itertools.islice(stops(), part % of, None, of)


def some_of_part(part: int, *, of: int) -> Iterator[int]:
    """Yields the first stop of the part, and every second one of the others. The runs together take each stop.

    In a soak, yields all stops.
    """
    if IS_SOAK:
        return stops()
    first = part % of
    return itertools.chain([first], itertools.count(first + of * random.randrange(1, 3), 2 * of))


def half_of_stops(*, odd: bool) -> Iterator[int]:
    """Yields every second stop, so that two tests take one half each. In a soak, yields all of them."""
    return part_of_stops(int(odd), of=2)
