"""What customers and merchants write on a day, and what all daily writes have in common; see `daily_writes`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Self
from uuid import uuid4

from graphql import GraphQLUnionType, get_named_type

from portico.gateway.domains import schema_of
from portico.resolvers.documents import Database
from portico.schema.kinds import Kind
from portico.testing.gateways import Gateway

Given = dict[str, Any]
_SHOWN = {
    "AccountPayload": "account { id }",
    "CartPayload": "cart { id items { sku quantity } }",
    "CheckoutPayload": "order { id }",
    "CommentPayload": "comment { id }",
    "ContentPayload": "content { id }",
    "DiscussionPayload": "discussion { id }",
    "PostPayload": "post { id }",
    "ProductPayload": "product { id nonce }",
    "TradePayload": "trade { id }",
}
_FRIENDS = ("mara", "jonas", "ines", "petra", "anton", "odile")
_HOT_PRODUCTS = ("LP-0001", "LP-0002", "LP-0046", "EQ-0001", "EQ-0013", "BD-0001")
# How often a write is to what is shown.
_HOT = 0.5
_ENOUGH = 20_000


class DailyTrade:
    """Makes random writes to the shop, the accounts and the catalog."""

    def __init__(self, gateway: Gateway, rng: random.Random) -> None:
        """The gateway has the caller of the demo, who may do everything."""
        self._gateway = gateway
        self._rng = rng
        self._skus: list[str] = []
        self._members: list[str] = []
        self._posts: dict[str, list[str]] = {}
        self._discussions: list[str] = []
        self._comments: list[tuple[str, str]] = []
        self._orders: list[tuple[str, str]] = []
        self._trades: list[str] = []
        self._made: list[tuple[str, str]] = []
        self._number = 0
        self._schema = schema_of(gateway.domains)._schema  # noqa: SLF001 - strawberry shows it in no other way

    @classmethod
    async def on(cls, gateway: Gateway, rng: random.Random) -> Self:
        """Returns the mix for the data of the demo, after it has looked what there is."""
        found = cls(gateway, rng)
        await found._look(gateway.db)
        return found

    async def _look(self, db: Database) -> None:
        self._skus = sorted(await db["products"].distinct("sku", {"type": {"$in": ["Audio Album", "Film"]}}))
        self._members = sorted(await db["social.members"].distinct("_id"))
        async for post in db["social.posts"].find({}, {"by": 1}, sort=[("posted", 1), ("_id", 1)]):
            self._posts.setdefault(post["by"]["id"], []).append(Kind.encode_id("Post", post["_id"]))
        self._discussions = [
            Kind.encode_id("Discussion", one) for one in sorted(await db["discussions"].distinct("_id"))
        ]
        for sku in self._skus:
            await self._call("restock", {"sku": sku, "quantity": 500, "idempotencyKey": self._key()})
        for owner in ("demo", "mara"):
            for category, item in (("coin", "silver"), ("potion", "healing")):
                named = {"category": category, "itemId": item, "name": f"{item} {category}"}
                given = {"to": {"owner": owner}, **named, "quantity": 500, "idempotencyKey": self._key()}
                await self._call("grant", given)

    # ------------------------------------------------------------------ helpers

    def _key(self) -> str:
        return str(uuid4())

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _is_hot(self) -> bool:
        return self._rng.random() < _HOT

    def _sku(self) -> str:
        return self._rng.choice(_HOT_PRODUCTS if self._is_hot() else self._skus)

    def _member(self) -> str:
        return self._rng.choice(_FRIENDS if self._is_hot() else self._members)

    def _who(self) -> str:
        """Returns a caller: often the one whose pages live queries show."""
        return "demo" if self._is_hot() else self._member()

    async def _call(self, mutation: str, given: Given | Sequence[Given], who: str = "demo") -> Mapping[str, Any]:
        """Calls a mutation. Returns its payload."""
        kind, payload = self._signature(mutation)
        shown = f"... on {payload} {{ {_SHOWN[payload]} }}" if payload in _SHOWN else ""
        text = f"mutation ($input: {kind}) {{ {mutation}(input: $input) {{ __typename {shown} }} }}"
        caller = self._gateway if who == "demo" else self._gateway.as_caller(who)
        found: Mapping[str, Any] = (await caller.data(text, {"input": given}))[mutation]
        return found

    def _signature(self, mutation: str) -> tuple[str, str]:
        """Returns the type of its input, and the one of its payload that shows the most."""
        mutations = self._schema.mutation_type
        assert mutations is not None
        field = mutations.fields[mutation]
        result = get_named_type(field.type)
        assert isinstance(result, GraphQLUnionType)
        payload = next((one.name for one in result.types if one.name in _SHOWN), "")
        return str(field.args["input"].type), payload

    async def _answer(self, mutation: str, given: Given | Sequence[Given], who: str = "demo") -> str:
        return str((await self._call(mutation, given, who))["__typename"])

    # --------------------------------------------------------- shop and accounts

    async def _cart(self, who: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (await self._call("createCart", {}, who))["cart"]
        return found

    async def fill_cart(self) -> str:
        who = self._who()
        given = {"cartId": (await self._cart(who))["id"], "sku": self._sku(), "quantity": self._rng.randint(1, 2)}
        return await self._answer("addItemToCart", given, who)

    async def change_cart(self) -> str:
        who = self._who()
        cart = await self._cart(who)
        if not cart["items"]:
            return await self.fill_cart()
        line = self._rng.choice(cart["items"])
        quantities = {"oldQuantity": line["quantity"], "newQuantity": self._rng.randint(0, 3)}
        return await self._answer("updateCartItem", {"cartId": cart["id"], "sku": line["sku"], **quantities}, who)

    async def check_out(self) -> str:
        who = self._who()
        cart = await self._cart(who)
        if not cart["items"]:
            return await self.fill_cart()
        opened = await self._account(who)
        given = {"cartId": cart["id"], "payment": {"accountId": opened}, "idempotencyKey": self._key()}
        paid = await self._call("checkout", given, who)
        if "order" in paid:
            self._orders.append((who, paid["order"]["id"]))
        return str(paid["__typename"])

    async def cancel_order(self) -> str:
        if not self._orders:
            return await self.check_out()
        who, order = self._orders.pop(self._rng.randrange(len(self._orders)))
        return await self._answer("cancelOrder", {"orderId": order}, who)

    async def ship_order(self) -> str:
        if not self._orders:
            return await self.check_out()
        _, order = self._orders.pop(self._rng.randrange(len(self._orders)))
        return await self._answer("shipOrder", {"orderId": order})

    async def restock(self) -> str:
        return await self._answer("restock", {"sku": self._sku(), "quantity": 5, "idempotencyKey": self._key()})

    async def _account(self, who: str) -> str:
        """Returns the id of an account with money in it."""
        found = await self._gateway.db["accounts"].find_one({"owner": who, "currency": "USD"}, sort=[("_id", 1)])
        if found is None:
            account = str((await self._call("openAccount", {"name": "Everyday"}, who))["account"]["id"])
        elif found["balance"] > _ENOUGH:
            return Kind.encode_id("Account", found["_id"])
        else:
            account = Kind.encode_id("Account", found["_id"])
        await self._pay_in(account)
        return account

    async def _pay_in(self, account: str) -> str:
        amount = {"amount": self._rng.randint(1, 50) * 1_000}
        return await self._answer("deposit", {"accountId": account, "amount": amount, "idempotencyKey": self._key()})

    async def deposit(self) -> str:
        return await self._pay_in(await self._account(self._who()))

    async def transfer(self) -> str:
        who = self._who()
        to = await self._account(self._rng.choice([one for one in _FRIENDS if one != who]))
        given = {"sourceId": await self._account(who), "destinationId": to, "amount": {"amount": 100}}
        return await self._answer("transfer", {**given, "idempotencyKey": self._key()}, who)

    # ------------------------------------------------------------------- catalog

    async def _product(self, sku: str) -> Given:
        found: Given | None = await self._gateway.db["products"].find_one({"sku": sku})
        assert found is not None
        return found

    async def change_price(self) -> str:
        product = await self._product(self._sku())
        given = {"id": Kind.encode_id("Product", product["sku"]), "nonce": product["nonce"]}
        retail = {"amount": self._rng.randint(1, product["pricing"]["list"])}
        pricing = {"list": {"amount": product["pricing"]["list"]}, "retail": retail}
        return await self._answer("updateProduct", {**given, "pricing": pricing})

    async def describe(self) -> str:
        product = await self._product(self._sku())
        given = {"id": Kind.encode_id("Product", product["sku"]), "nonce": product["nonce"]}
        return await self._answer("updateProduct", {**given, "description": f"Described anew: {self._next()}."})

    async def create_product(self) -> str:
        number = self._next()
        price = {"amount": self._rng.randint(500, 4_000)}
        given = {
            "sku": f"LP-8{number:03}",
            "type": "Audio Album",
            "title": f"Volume {number}",
            "pricing": {"list": price, "retail": price},
            "details": {"artist": "The House Band", "genres": ["Jazz"], "tracks": ["One", "Two"]},
        }
        made = await self._call("createProduct", given)
        self._made.append((made["product"]["id"], made["product"]["nonce"]))
        return str(made["__typename"])

    async def delete_product(self) -> str:
        if not self._made:
            return await self.create_product()
        product, nonce = self._made.pop(self._rng.randrange(len(self._made)))
        return await self._answer("deleteProduct", {"id": product, "nonce": nonce})

    async def rename_category(self) -> str:
        slug = self._rng.choice(["modal-jazz", "film", "soul", "turntables"])
        category = await self._gateway.db["categories"].find_one({"slug": slug})
        if category is None:
            return await self.describe()
        given = {"id": Kind.encode_id("Category", category["_id"]), "name": f"{slug.title()} {self._next()}"}
        return await self._answer("renameCategory", given)
