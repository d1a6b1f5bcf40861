"""Clients who sell, buy, pay, write pages and comment at random while gateways are killed."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.accounts.support.accounts import assert_money, balances, open_account
from tests.comments.support.discussions import STORAGES, everything, open_on_product
from tests.content.support.site import page_input
from tests.shop.support.shop import assert_nothing_in_flight, stock_of, stock_up
from tests.support.harness import MUTATIONS, GatewayClient, category_input, new_key, product_input
from tests.support.kills import Client, Clients, turns

UNITS, MONEY, PRICE = 10_000_000, 1_000_000_000, 100
_numbers = itertools.count(1)


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
        for _ in turns(seconds, self._world.operations):
            await self._rng.choice(writes)()

    async def call(self, mutation: str, given: dict[str, Any], expected: str, *, token: str | None = "") -> Any:
        variables = {"input": {**given, "idempotencyKey": new_key()}}
        result = (await self._client.ask(MUTATIONS[mutation], variables, token=token))[mutation]
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
        # All clients have the same caller, who has one active cart.
        cart = (await self.call("createCart", {}, "CartPayload", token=None))["cart"]["id"]
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


async def prepared_world(gateway: GatewayClient) -> World:
    sku = await stock_up(gateway, units=UNITS, price=PRICE)
    accounts = [await open_account(gateway.db, MONEY) for _ in range(3)]
    return World(sku, accounts, [await open_on_product(gateway, storage) for storage in STORAGES])


async def assert_world_is_as_told(gateway: GatewayClient, world: World) -> None:
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


class Shop:
    """Writers of the catalog, the shop, accounts, content and comments."""

    world: World
    operations: Counter[str]

    def __init__(self, writers: int) -> None:
        self._writers = writers

    async def prepare(self, gateway: GatewayClient) -> None:
        self.world = await prepared_world(gateway)
        self.operations = self.world.operations

    def actors(self, clients: Clients) -> list[Writer]:
        return [Writer(clients.connect(), self.world, random.Random(number)) for number in range(self._writers)]

    async def check(self, gateway: GatewayClient) -> None:
        await assert_world_is_as_told(gateway, self.world)
