"""The writes of `bench.writes`: each as a mutation, and as one multi-document transaction with the same effect."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bson import ObjectId
from pymongo.asynchronous.client_session import AsyncClientSession

from bench.buyers import key
from bench.postgres import ACCOUNTS, ZIPF
from bench.shop import PLENTY, product
from bench.write_scene import Pair, Prepare, Scene, User, changed
from portico.resolvers.documents import Document
from portico.schema.kinds import Kind

# Of many clients, these do not write to one document.
EVEN, BY_ZIPF = "transfer between any accounts", "transfer by Zipf"

# --------------------------------------------------------------------- accounts


async def open_account(scene: Scene, subject: str, amount: int) -> tuple[User, str, ObjectId]:
    """Open an account on both sides. Return the owner and both ids."""
    user, own = scene.user(subject), ObjectId()
    opened = (await user.ask("openAccount", {"name": "Bench"}))["account"]["id"]
    await user.ask("deposit", {"accountId": opened, "amount": {"amount": amount}, "idempotencyKey": key()})
    await scene.by_hand["accounts"].insert_one({"_id": own, "balance": amount})
    return user, opened, own


class Accounts:
    """Transfers from an account of each client to one account, and deposits to it."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._to: tuple[str, ObjectId] | None = None

    async def _shared(self, scene: Scene) -> tuple[str, ObjectId]:
        if self._to is None:
            _, to, own = await open_account(scene, f"the payee of {self._scope}", 1)
            self._to = (to, own)
        return self._to

    async def transfer(self, scene: Scene, client: int, _count: int) -> Pair:
        to, own_to = await self._shared(scene)
        user, source, own = await open_account(scene, f"payer {client} of {self._scope}", PLENTY)

        async def by_hand(_number: int, session: AsyncClientSession) -> None:
            await pay(scene, session, own, own_to, 1)

        async def portico(_number: int) -> Any:
            given = {"sourceId": source, "destinationId": to, "amount": {"amount": 1}, "idempotencyKey": key()}
            return await user.ask("transfer", given)

        return Pair(portico, by_hand)

    async def deposit(self, scene: Scene, _client: int, _count: int) -> Pair:
        to, own_to = await self._shared(scene)
        user = scene.user("a service")

        async def by_hand(_number: int, session: AsyncClientSession) -> None:
            db = scene.by_hand
            await changed(db["accounts"].update_one({"_id": own_to}, {"$inc": {"balance": 1}}, session=session))
            await db["transfers"].insert_one({"destination": own_to, "amount": 1}, session=session)

        async def portico(_number: int) -> Any:
            given = {"accountId": to, "amount": {"amount": 1}, "idempotencyKey": key()}
            return await user.ask("deposit", given)

        return Pair(portico, by_hand)


class Spread:
    """Transfers between accounts of one owner, which are drawn evenly or by Zipf, as in `bench.postgres`."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._opened: list[tuple[str, ObjectId]] = []

    async def even(self, scene: Scene, client: int, count: int) -> Pair:
        return await self._transfers(scene, f"even {client}", count, [1] * ACCOUNTS)

    async def zipf(self, scene: Scene, client: int, count: int) -> Pair:
        return await self._transfers(scene, f"Zipf {client}", count, [rank**-ZIPF for rank in range(1, ACCOUNTS + 1)])

    async def _transfers(self, scene: Scene, seed: str, count: int, weights: Sequence[float]) -> Pair:
        owner = f"owner of {self._scope}"
        while len(self._opened) < ACCOUNTS:
            _, account, own = await open_account(scene, owner, PLENTY)
            self._opened.append((account, own))
        user, rng = scene.user(owner), random.Random(seed)
        drawn = [rng.choices(range(ACCOUNTS), weights, k=2) for _ in range(count)]
        ways = [(one, other if other != one else (one + 1) % ACCOUNTS) for one, other in drawn]

        async def by_hand(number: int, session: AsyncClientSession) -> None:
            (_, source), (_, destination) = (self._opened[place] for place in ways[number])
            await pay(scene, session, source, destination, 1)

        async def portico(number: int) -> Any:
            (source, _), (destination, _) = (self._opened[place] for place in ways[number])
            given = {"sourceId": source, "destinationId": destination, "amount": {"amount": 1}}
            return await user.ask("transfer", {**given, "idempotencyKey": key()})

        return Pair(portico, by_hand)


async def pay(scene: Scene, session: AsyncClientSession, source: Any, destination: Any, amount: int) -> None:
    db = scene.by_hand
    enough = {"_id": source, "balance": {"$gte": amount}}
    await changed(db["accounts"].update_one(enough, {"$inc": {"balance": -amount}}, session=session))
    await changed(db["accounts"].update_one({"_id": destination}, {"$inc": {"balance": amount}}, session=session))
    record = {"source": source, "destination": destination, "amount": amount, "created_at": datetime.now(UTC)}
    await db["transfers"].insert_one(record, session=session)


# ------------------------------------------------------------------------- shop


async def _fill(user: User, given: dict[str, Any]) -> str:
    cart: str = (await user.ask("createCart", {}))["cart"]["id"]
    if given:
        await user.ask("addItemToCart", {"cartId": cart, **given})
    return cart


class Shop:
    """Carts with units of one SKU."""

    def __init__(self, scope: str) -> None:
        self._sku = f"ware of {scope}"
        self._shop = f"shop of {scope}"
        self._is_open = False

    async def _open(self, scene: Scene) -> None:
        if not self._is_open:
            self._is_open = True
            merchant = scene.user("the merchant")
            await merchant.ask("createProduct", {**product(0), "sku": self._sku})
            await merchant.ask("restock", {"sku": self._sku, "quantity": 2_000_000, "idempotencyKey": key()})
            await scene.by_hand["stock"].insert_one({"_id": self._sku, "available": PLENTY, "sold": 0})
            await scene.by_hand["accounts"].insert_one({"_id": self._shop, "balance": 0})

    async def add(self, scene: Scene, client: int, _count: int) -> Pair:
        await self._open(scene)
        user = scene.user(f"buyer {client}")
        cart, own = await _fill(user, {}), ObjectId()
        lines = [{"sku": self._sku, "quantity": 0}]
        await scene.by_hand["carts"].insert_one({"_id": own, "status": "active", "items": lines})

        async def by_hand(_number: int, session: AsyncClientSession) -> None:
            db, active = scene.by_hand, {"_id": own, "status": "active", "items.sku": self._sku}
            await db["carts"].find_one(active, session=session)
            enough = {"_id": self._sku, "available": {"$gte": 1}}
            await changed(db["stock"].update_one(enough, {"$inc": {"available": -1}}, session=session))
            await changed(db["carts"].update_one(active, {"$inc": {"items.$.quantity": 1}}, session=session))

        async def portico(_number: int) -> Any:
            return await user.ask("addItemToCart", {"cartId": cart, "sku": self._sku, "quantity": 1})

        return Pair(portico, by_hand)

    async def checkout(self, scene: Scene, client: int, count: int) -> Pair:
        await self._open(scene)
        user, account, own = await open_account(scene, f"customer {client}", PLENTY)
        # A signed-in buyer would get the same cart again.
        visitor = scene.user(None)
        carts = [await _fill(visitor, {"sku": self._sku, "quantity": 1}) for _ in range(count)]
        stored = [{"_id": ObjectId(), "status": "active", "items": [{"sku": self._sku, "price": 1000}]} for _ in carts]
        await scene.by_hand["carts"].insert_many(stored)

        async def by_hand(number: int, session: AsyncClientSession) -> None:
            db = scene.by_hand
            cart = await db["carts"].find_one({"_id": stored[number]["_id"], "status": "active"}, session=session)
            total = sum(line["price"] for line in cart["items"])
            await pay(scene, session, own, self._shop, total)
            await db["orders"].insert_one(
                {"cart": cart["_id"], "items": cart["items"], "total": total}, session=session
            )
            await changed(db["stock"].update_one({"_id": self._sku}, {"$inc": {"sold": 1}}, session=session))
            sold = {"$set": {"status": "complete"}}
            await changed(db["carts"].update_one({"_id": cart["_id"], "status": "active"}, sold, session=session))

        async def portico(number: int) -> Any:
            given = {"cartId": carts[number], "payment": {"accountId": account}, "idempotencyKey": key()}
            return await user.ask("checkout", given)

        return Pair(portico, by_hand)


# ------------------------------------------------------------------------- game


class Game:
    """Characters who all start in one room."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._room: ObjectId | None = None
        self._entered = 0

    async def _enter(self, scene: Scene) -> tuple[User, str, Document, list[Any]]:
        """Put a character into the room, on both sides. Return the player, both characters and both rooms."""
        if self._room is None:
            self._room = scene.world.pair()
        rooms = [self._room, scene.world.beyond(self._room)]
        for one in rooms:
            found: Document = {"$setOnInsert": {"characters": [], "items": []}}
            await scene.by_hand["locations"].update_one({"_id": one}, found, upsert=True)
        self._entered += 1
        [(owner, character)] = scene.world.enter(self._room, 1, f"hero {self._entered} of {self._scope}")
        own = {"_id": character, "room": self._room, "items": []}
        await scene.by_hand["characters"].insert_one(own)
        entered = {"$push": {"characters": {"_id": character}}}
        await scene.by_hand["locations"].update_one({"_id": self._room}, entered)
        return scene.user(owner), Kind.encode_id("Character", character), own, rooms

    async def move(self, scene: Scene, _client: int, _count: int) -> Pair:
        """Each client moves to the other room, and back."""
        user, character, own, rooms = await self._enter(scene)

        async def by_hand(number: int, session: AsyncClientSession) -> None:
            db, (source, target) = scene.by_hand, (rooms if number % 2 == 0 else rooms[::-1])
            left = {"$pull": {"characters": {"_id": own["_id"]}}}
            there = {"_id": source, "characters._id": own["_id"]}
            entered = {"$push": {"characters": {"_id": own["_id"]}}}
            await db["characters"].find_one({"_id": own["_id"]}, session=session)
            await changed(db["locations"].update_one(there, left, session=session))
            await changed(db["locations"].update_one({"_id": target}, entered, session=session))
            room = await db["locations"].find_one({"_id": target}, session=session)
            moved = {"$set": {"room": target, "seen": room}}
            await changed(db["characters"].update_one({"_id": own["_id"], "room": source}, moved, session=session))

        async def portico(number: int) -> Any:
            return await user.ask("move", {"characterId": character, "direction": "NS"[number % 2]})

        return Pair(portico, by_hand)

    async def carry(self, scene: Scene, _client: int, _count: int) -> Pair:
        """Each client picks up an item of their own, and drops it again."""
        user, character, own, rooms = await self._enter(scene)
        [item] = scene.world.lay(rooms[0], 1)
        coin = {"_id": item, "name": "coin"}
        await scene.by_hand["locations"].update_one({"_id": rooms[0]}, {"$push": {"items": coin}})

        async def by_hand(number: int, session: AsyncClientSession) -> None:
            sides = ("locations", rooms[0]), ("characters", own["_id"])
            (source, held_by), (target, taken_by) = sides if number % 2 == 0 else sides[::-1]
            held, off = {"_id": held_by, "items._id": item}, {"$pull": {"items": {"_id": item}}}
            await changed(scene.by_hand[source].update_one(held, off, session=session))
            on = {"$push": {"items": coin}}
            await changed(scene.by_hand[target].update_one({"_id": taken_by}, on, session=session))

        async def portico(number: int) -> Any:
            return await user.ask(("pickUp", "drop")[number % 2], {"characterId": character, "itemId": item})

        return Pair(portico, by_hand)


# -------------------------------------------------------- comments, and members


class Comments:
    """Comments in one discussion."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._discussion: tuple[str, ObjectId] | None = None

    async def post(self, scene: Scene, client: int, _count: int) -> Pair:
        user = scene.user(f"poster {client}")
        if self._discussion is None:
            made = await user.ask("createProduct", {**product(0), "sku": f"discussed by {self._scope}"})
            opened = await user.ask("openDiscussion", {"subjectId": made["product"]["id"]})
            self._discussion = (opened["discussion"]["id"], ObjectId())
            await scene.by_hand["discussions"].insert_one({"_id": self._discussion[1], "count": 0})
        discussion, own = self._discussion

        async def by_hand(_number: int, session: AsyncClientSession) -> None:
            db, posted = scene.by_hand, {"discussion": own, "text": "One more.", "posted": datetime.now(UTC)}
            await db["comments"].insert_one(posted, session=session)
            await changed(db["discussions"].update_one({"_id": own}, {"$inc": {"count": 1}}, session=session))

        async def portico(_number: int) -> Any:
            return await user.ask("postComment", {"discussionId": discussion, "text": "One more."})

        return Pair(portico, by_hand)


class Members:
    """Posts, and votes on one poll."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._poll: tuple[str, ObjectId] | None = None
        self._joined: set[str] = set()

    async def _join(self, scene: Scene, client: int) -> User:
        name = f"member {client} of {self._scope}"
        user = scene.user(name)
        if name not in self._joined:
            self._joined.add(name)
            await user.ask("join", {"name": name})
            await scene.by_hand["members"].insert_one({"_id": name, "posts": 0})
        return user

    async def vote(self, scene: Scene, client: int, _count: int) -> Pair:
        """All clients change their vote with each call."""
        user = await self._join(scene, client)
        if self._poll is None:
            detail = {"poll": {"text": "Which?", "options": ["one", "the other"]}}
            made = await user.ask("createPost", {"detail": detail})
            self._poll = (made["post"]["id"], ObjectId())
            await scene.by_hand["polls"].insert_one({"_id": self._poll[1], "counts": [0, 0]})
        poll, own = self._poll
        await scene.by_hand["votes"].insert_one({"_id": f"{own} {client}", "option": 1})

        async def by_hand(number: int, session: AsyncClientSession) -> None:
            db, option = scene.by_hand, number % 2
            chosen = {"_id": f"{own} {client}", "option": 1 - option}
            await changed(db["votes"].update_one(chosen, {"$set": {"option": option}}, session=session))
            counts = {"$inc": {f"counts.{option}": 1, f"counts.{1 - option}": -1}}
            await changed(db["polls"].update_one({"_id": own}, counts, session=session))

        async def portico(number: int) -> Any:
            return await user.ask("vote", {"postId": poll, "option": number % 2})

        return Pair(portico, by_hand)

    async def post(self, scene: Scene, client: int, _count: int) -> Pair:
        """Each client posts on their own wall."""
        user = await self._join(scene, client)

        async def by_hand(_number: int, session: AsyncClientSession) -> None:
            db, name = scene.by_hand, f"member {client} of {self._scope}"
            await db["posts"].insert_one({"by": name, "text": "Hello.", "posted": datetime.now(UTC)}, session=session)
            await changed(db["members"].update_one({"_id": name}, {"$inc": {"posts": 1}}, session=session))

        async def portico(_number: int) -> Any:
            return await user.ask("createPost", {"detail": {"status": {"text": "Hello."}}})

        return Pair(portico, by_hand)


def cases(scope: str) -> dict[str, Prepare]:
    """Return the writes by name, in the order of their measurement, with documents of their own for each scope."""
    accounts, shop, comments, members = Accounts(scope), Shop(scope), Comments(scope), Members(scope)
    spread = Spread(scope)
    return {
        "transfer": accounts.transfer,
        "deposit": accounts.deposit,
        "add to cart": shop.add,
        "checkout of one line": shop.checkout,
        "move between rooms": Game(scope).move,
        "move within a room": Game(f"{scope}, carrying").carry,
        "comment": comments.post,
        "vote": members.vote,
        "post": members.post,
        EVEN: spread.even,
        BY_ZIPF: spread.zipf,
    }
