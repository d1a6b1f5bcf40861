"""Gateways and nodes of a replica set are killed and stalled at random, while clients write in every domain.

No acknowledged write is lost or carried out twice, and nobody who has an acknowledgement reads an older state. In every
snapshot that is read meanwhile, each item of the game is in one place, and gold and stacks are conserved. `make soak`
runs this for an hour; `KILLS_SECONDS` sets another time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.social.settings import SocialSettings
from portico.schema.roles import Role
from tests.support.accounts import assert_money, balances, open_account
from tests.support.ad_kills import Advertiser, Board, assert_board_is_as_told
from tests.support.discussions import STORAGES, everything, open_on_product
from tests.support.game_books import auditing
from tests.support.game_kills import Player, prepared_world
from tests.support.harness import (
    IS_SOAK,
    MUTATIONS,
    GatewayClient,
    SettableClock,
    category_input,
    product_input,
    run_jobs,
    running,
    with_settings,
)
from tests.support.kills import Client, Faults, gateways
from tests.support.processes import environment, portico
from tests.support.replica_sets import replica_set
from tests.support.shop import assert_nothing_in_flight, stock_of, stock_up
from tests.support.site import page_input
from tests.support.social_kills import SocialWriter, assert_network_is_as_told, prepared_network
from tests.support.trade_kills import Market, Trader, assert_market_is_as_told
from tests.support.traffic_kills import Recorder, Traffic, assert_traffic_is_as_told

SECONDS = float(os.environ.get("KILLS_SECONDS", "3600" if IS_SOAK else "5"))
PAUSE = 4.0 if SECONDS > 60 else 0.5
GATEWAYS = 2
CLIENTS = 6
# Members of the social network, and the clients that act for them.
MEMBERS, ACTORS = (1_000, 12) if SECONDS > 60 else (24, 4)
# Players of the game, traders, advertisers and recorders of traffic, each a client.
PLAYERS, TRADERS, ADVERTISERS, RECORDERS = (12, 12, 6, 6) if SECONDS > 60 else (4, 4, 2, 2)
UNITS, MONEY, PRICE = 10_000_000, 1_000_000_000, 100
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Not uvloop: if a server is killed while a client connects, uvloop gives anyio a connection without a socket."""
    return "asyncio"


@dataclass
class World:
    """The state that follows from the answers to all writes."""

    sku: str
    accounts: list[str]
    discussions: list[str]
    products: set[str] = field(default_factory=set)
    categories: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    comments: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    restocked: int = 0
    sold: int = 0
    orders: int = 0
    deposited: int = 0
    stale_reads: int = 0
    operations: Counter[str] = field(default_factory=Counter)


class Writer:
    """A client that writes at random, and notes what it is told."""

    def __init__(self, client: Client, world: World, rng: random.Random) -> None:
        self._client = client
        self._world = world
        self._rng = rng

    async def run(self, seconds: float) -> None:
        writes: list[Callable[[], Awaitable[None]]] = [
            self.create_category,
            self.create_product,
            self.restock,
            self.buy,
            self.deposit,
            self.transfer,
            self.write_a_page,
            self.comment,
        ]
        ends = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends:
            await self._rng.choice(writes)()

    async def call(self, mutation: str, given: dict[str, Any], expected: str) -> Any:
        key = {"idempotencyKey": f"kill-{next(_numbers)}"}
        result = (await self._client.ask(MUTATIONS[mutation], {"input": {**given, **key}}))[mutation]
        assert result["__typename"] == expected, result
        self._world.operations[mutation] += 1
        return result

    async def require_seen(self, query: str, variables: dict[str, Any]) -> None:
        found = await self._client.ask(query, variables)
        self._world.stale_reads += any(value is None for value in found.values())

    async def create_category(self) -> None:
        slug = (await self.call("createCategory", category_input(), "CategoryPayload"))["category"]["slug"]
        self._world.categories.add(slug)
        await self.require_seen("query ($slug: String!) { category(slug: $slug) { id } }", {"slug": slug})

    async def create_product(self) -> None:
        sku = (await self.call("createProduct", product_input(), "ProductPayload"))["product"]["sku"]
        self._world.products.add(sku)
        await self.require_seen("query ($sku: String!) { product(sku: $sku) { id } }", {"sku": sku})

    async def restock(self) -> None:
        quantity = self._rng.randint(1, 9)
        await self.call("restock", {"sku": self._world.sku, "quantity": quantity}, "StockPayload")
        self._world.restocked += quantity

    async def buy(self) -> None:
        quantity = self._rng.randint(1, 5)
        cart = (await self.call("createCart", {}, "CartPayload"))["cart"]["id"]
        await self.call("addItemToCart", {"cartId": cart, "sku": self._world.sku, "quantity": quantity}, "CartPayload")
        payment = {"accountId": self._rng.choice(self._world.accounts)}
        await self.call("checkout", {"cartId": cart, "payment": payment}, "CheckoutPayload")
        self._world.sold += quantity
        self._world.orders += 1

    async def deposit(self) -> None:
        given = {"accountId": self._rng.choice(self._world.accounts), "amount": {"amount": 7}}
        await self.call("deposit", given, "AccountPayload")
        self._world.deposited += 7

    async def transfer(self) -> None:
        source, destination = self._rng.sample(self._world.accounts, 2)
        given = {"sourceId": source, "destinationId": destination, "amount": {"amount": 3}}
        await self.call("transfer", given, "TransferPayload")

    async def write_a_page(self) -> None:
        page = (await self.call("createPage", page_input(), "ContentPayload"))["content"]
        text = f"Edited {next(_numbers)}."
        given = {"id": page["id"], "nonce": page["nonce"], "text": text}
        await self.call("editText", given, "ContentPayload")
        self._world.texts[page["path"]] = text
        await self.require_seen("query ($path: String!) { content(path: $path) { id } }", {"path": page["path"]})

    async def comment(self) -> None:
        discussion, text = self._rng.choice(self._world.discussions), f"Comment {next(_numbers)}."
        posted = await self.call("postComment", {"discussionId": discussion, "text": text}, "CommentPayload")
        if self._rng.random() < 0.2:
            await self.call("deleteComment", {"id": posted["comment"]["id"]}, "CommentPayload")
        else:
            self._world.comments[discussion].add(text)
            await self.require_seen("query ($id: ID!) { node(id: $id) { id } }", {"id": posted["comment"]["id"]})


async def prepared(gateway: GatewayClient) -> World:
    sku = await stock_up(gateway, units=UNITS, price=PRICE)
    accounts = [await open_account(gateway.db, MONEY) for _ in range(3)]
    return World(sku, accounts, [await open_on_product(gateway, storage) for storage in STORAGES])


async def assert_is_as_told(gateway: GatewayClient, clock: SettableClock, world: World) -> None:
    clock.advance(seconds=61)
    while await run_jobs(gateway, clock):
        pass
    await assert_nothing_in_flight(gateway.db)
    slugs = {one["slug"] async for one in gateway.db["categories"].find({})}
    skus = {one["sku"] async for one in gateway.db["products"].find({"sku": {"$regex": "^SKU-"}})}
    pages = {
        one["slug"]: one["detail"]["text"] async for one in gateway.db["cms.nodes"].find({"slug": {"$regex": "^page-"}})
    }
    assert (slugs, skus, pages) == (world.categories, world.products, told_of_pages(world))
    for discussion in world.discussions:
        rows = await everything(gateway, discussion, 100)
        assert Counter(row["text"] for row in rows) == Counter(world.comments[discussion]), discussion
    assert await stock_of(gateway, world.sku) == (UNITS + world.restocked - world.sold, 0, world.sold)
    assert await gateway.db["orders"].count_documents({}) == world.orders
    # Buyers pay into the account of the shop.
    paid = sum(await balances(gateway.db, *world.accounts)) - len(world.accounts) * MONEY - world.deposited
    assert paid == -world.sold * PRICE
    await assert_money(gateway, len(world.accounts) * MONEY + world.deposited)
    assert world.stale_reads == 0


def told_of_pages(world: World) -> dict[str, str]:
    return {path.rpartition("/")[2]: text for path, text in world.texts.items()}


@pytest.mark.timeout(SECONDS + 600)
async def test_no_acknowledged_write_is_lost_or_doubled_by_random_kills(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(int(os.environ.get("KILLS_SEED", "1")))
    with replica_set(tmp_path / "three") as three:
        # A rate would refuse what the test must be told.
        unbounded = with_settings(settings, SocialSettings, social_rate=1_000_000)
        own = replace(unbounded, mongodb_uri=Secret(three.uri), database="kills")
        async with running(own, clock=clock) as gateway:
            world, token = await prepared(gateway), gateway.token()
            network = await prepared_network(gateway.db, MEMBERS)
            game = await prepared_world(gateway.db)
            board, traffic = Board(), Traffic()
            market = Market([f"trader-{number}" for number in range(2 * TRADERS)])
            names = [*network.members, *market.owners, *(f"player-{number}" for number in range(PLAYERS))]
            tokens = {name: gateway.token(name, []) for name in names}
            tokens["master"] = gateway.token("master", [Role.GAME_MASTER])
            advertiser = gateway.token("advertiser", [Role.ADVERTISER])
        env = environment(replace(own, jobs=True, job_seconds=1.0))
        with gateways(tmp_path / "gateways", env, GATEWAYS) as served:
            faults = Faults(three, served, rng)
            clients = [
                Client(served, token, random.Random(number))
                for number in range(CLIENTS + ACTORS + PLAYERS + TRADERS + ADVERTISERS + RECORDERS)
            ]
            writers = [Writer(client, world, random.Random(number)) for number, client in enumerate(clients[:CLIENTS])]
            actors = [
                SocialWriter(client, network, network.members[number::ACTORS], tokens, random.Random(number))
                for number, client in enumerate(clients[CLIENTS:][:ACTORS])
            ]
            players = [
                Player(
                    client,
                    tokens[f"player-{number}"],
                    f"player-{number}",
                    game,
                    random.Random(number),
                    gets_gifts=number % 2 == 0,
                )
                for number, client in enumerate(clients[CLIENTS + ACTORS :][:PLAYERS])
            ]
            traders = [
                Trader(client, market, market.owners[number::TRADERS], tokens, random.Random(number))
                for number, client in enumerate(clients[CLIENTS + ACTORS + PLAYERS :][:TRADERS])
            ]
            advertisers = [
                Advertiser(client, board, f"advertiser-{number}", advertiser, random.Random(number))
                for number, client in enumerate(clients[CLIENTS + ACTORS + PLAYERS + TRADERS :][:ADVERTISERS])
            ]
            recorders = [
                Recorder(client, traffic, random.Random(number)) for number, client in enumerate(clients[-RECORDERS:])
            ]
            groups: tuple[Sequence[Any], ...] = (writers, actors, players, traders, advertisers, recorders)
            acting = [one.run(SECONDS) for group in groups for one in group]
            async with auditing(three.uri, "kills", game.items) as auditor:
                await asyncio.gather(faults.run(SECONDS, PAUSE), *acting)
            for client in clients:
                await client.aclose()
        async with running(own, clock=clock) as gateway:
            await assert_is_as_told(gateway, clock, world)
            await assert_network_is_as_told(gateway, network)
            await assert_market_is_as_told(gateway.db, market)
            await assert_board_is_as_told(gateway.db, board)
            await assert_traffic_is_as_told(gateway.db, traffic)
            await auditor.check(gateway.db)
        checked = await asyncio.to_thread(portico, "doctor", env=environment(own), timeout=600)
    assert (checked.returncode, checked.stderr) == (0, "")
    played = sum((player.told.operations for player in players), Counter[str]())
    written = (world, network, market, board, traffic)
    report(faults, clients, sum((one.operations for one in written), played))
    sys.stderr.write(f"snapshots: {auditor.checked:,}, with writes in flight {auditor.in_flight:,}\n")
    assert sum(world.operations.values()) > CLIENTS
    assert sum(network.operations.values()) > ACTORS
    assert sum(played.values()) > PLAYERS
    assert sum(market.operations.values()) > TRADERS
    assert sum(board.operations.values()) > ADVERTISERS
    assert sum(traffic.operations.values()) > RECORDERS
    assert auditor.checked > SECONDS / 10


def report(faults: Faults, clients: list[Client], acknowledged: Counter[str]) -> None:
    """Prints the faults, the operations, and what the clients met."""
    met = sum((client.counts for client in clients), Counter[str]())
    for name, counts in (("faults", faults.counts), ("acknowledged", acknowledged), ("clients", met)):
        sys.stderr.write(f"\n{name}: {', '.join(f'{what} {number:,}' for what, number in sorted(counts.items()))}")
    sys.stderr.write("\nviolations: 0\n")
