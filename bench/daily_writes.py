"""A realistic mix of writes to the demo: what customers, members, players and editors do on a day.

Half of the writes are to what the documentation shows, which is what live queries follow here. The others are to any
other object. Each kind has a weight: how many of a thousand writes are of this kind.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta

from bench.daily_trade import DailyTrade, Given
from portico.schema.kinds import Kind
from portico.testing.gateways import Gateway

# How often data comes late.
_LATE = 0.2
_PLACES = ("shop", "category"), ("shop", "blog")
_PAGES = ("/jazz", "/soul", "/film", "/equipment")
# By name: how many of a thousand writes, and what makes one.
Kinds = dict[str, tuple[int, Callable[[], Awaitable[str]]]]


class DailyWrites(DailyTrade):
    """Makes one random write after another. Equal seeds on equal data make equal writes."""

    def __init__(self, gateway: Gateway, rng: random.Random) -> None:
        """The gateway has the caller of the demo, who may do everything."""
        super().__init__(gateway, rng)
        self._kinds = _kinds(self)

    @property
    def kinds(self) -> Mapping[str, int]:
        """The weight of each kind of write."""
        return {name: weight for name, (weight, _) in self._kinds.items()}

    async def write(self) -> tuple[str, str]:
        """Makes a write. Returns its kind, and what it was answered with."""
        names = list(self._kinds)
        [name] = self._rng.choices(names, [self._kinds[one][0] for one in names])
        return name, await self._kinds[name][1]()

    # -------------------------------------------------------------- content

    async def edit_page(self) -> str:
        page = await self._gateway.db["cms.nodes"].find_one({"slug": "about"})
        assert page is not None
        given = {
            "id": Kind.encode_id("Page", page["_id"]),
            "nonce": page["nonce"],
            "text": f"Edition {self._next()}.\n",
        }
        return await self._answer("editText", given)

    async def tag(self) -> str:
        pages = await self._gateway.db["cms.nodes"].find({"type": {"$ne": "section"}}, sort=[("_id", 1)]).to_list()
        page = self._rng.choice(pages)
        kind = {"page": "Page", "blog-entry": "BlogEntry", "photo": "Photo"}.get(page["type"], "Page")
        tags = [self._rng.choice(["the shop", "water", "vinyl", "film"])]
        mutation = self._rng.choice(["addTags", "removeTags"])
        return await self._answer(mutation, {"id": Kind.encode_id(kind, page["_id"]), "tags": tags})

    async def write_entry(self) -> str:
        blog = await self._gateway.db["cms.nodes"].find_one({"slug": "blog"})
        if blog is None:
            return await self.edit_page()
        number = self._next()
        given = {
            "blogId": Kind.encode_id("Section", blog["_id"]),
            "slug": f"entry-{number}",
            "title": f"Entry {number}",
        }
        return await self._answer("createBlogEntry", {**given, "text": "News.\n", "tags": ["vinyl"]})

    # -------------------------------------------------------------- comments

    async def comment(self) -> str:
        who, discussion = self._member(), self._rng.choice(self._discussions)
        posted = await self._call("postComment", {"discussionId": discussion, "text": f"Remark {self._next()}."}, who)
        if "comment" in posted:
            self._comments.append((who, posted["comment"]["id"]))
        return str(posted["__typename"])

    async def edit_comment(self) -> str:
        if not self._comments:
            return await self.comment()
        who, comment = self._rng.choice(self._comments)
        return await self._answer("editComment", {"id": comment, "text": f"Correction {self._next()}."}, who)

    async def delete_comment(self) -> str:
        if not self._comments:
            return await self.comment()
        who, comment = self._comments.pop(self._rng.randrange(len(self._comments)))
        return await self._answer("deleteComment", {"id": comment}, who)

    # ------------------------------------------------------------ members

    async def post(self) -> str:
        who = self._who()
        detail = {"status": {"text": f"Status {self._next()}."}}
        made = await self._call("createPost", {"detail": detail, "audience": "PUBLIC"}, who)
        if "post" in made:
            self._posts.setdefault(who, []).append(made["post"]["id"])
        return str(made["__typename"])

    def _some_post(self) -> str:
        return self._rng.choice(self._posts[self._rng.choice(sorted(self._posts))])

    async def comment_on_post(self) -> str:
        return await self._answer("commentOnPost", {"postId": self._some_post(), "text": "Quite."}, self._member())

    async def vote(self) -> str:
        polls = await self._gateway.db["social.posts"].find({"type": "poll"}, {"_id": 1}, sort=[("_id", 1)]).to_list()
        given = {"postId": Kind.encode_id("Post", self._rng.choice(polls)["_id"]), "option": self._rng.randrange(2)}
        return await self._answer("vote", given, self._member())

    async def change_circle(self) -> str:
        who = self._who()
        other = Kind.encode_id("User", self._rng.choice([one for one in self._members if one != who]))
        mutation = self._rng.choice(["addToCircle", "addToCircle", "removeFromCircle"])
        return await self._answer(
            mutation, {"userId": other, "circle": self._rng.choice(["Friends", "Film club"])}, who
        )

    async def block(self) -> str:
        who = self._who()
        other = Kind.encode_id("User", self._rng.choice([one for one in self._members if one != who]))
        return await self._answer(self._rng.choice(["block", "unblock", "unblock"]), {"userId": other}, who)

    async def change_profile(self) -> str:
        return await self._answer("updateProfile", {"profile": {"about": f"Version {self._next()}."}}, self._who())

    async def read_notifications(self) -> str:
        who = self._who()
        newest = await self._gateway.db["notifications"].find_one({"of": who}, sort=[("created_at", -1), ("_id", -1)])
        if newest is None:
            return await self.post()
        given = {"which": {"through": Kind.encode_id("Notification", newest["_id"])}}
        return await self._answer("markNotificationsRead", given, who)

    # ------------------------------------------------------------------ game

    async def _hero(self) -> Given:
        found: Given | None = await self._gateway.db["game.characters"].find_one({"owner": "demo"}, sort=[("_id", 1)])
        assert found is not None
        return found

    async def walk(self) -> str:
        hero = await self._hero()
        room = await self._gateway.db["game.locations"].find_one({"_id": hero["location"]["_id"]})
        assert room is not None
        direction = self._rng.choice([one["direction"] for one in room["exits"]])
        return await self._answer(
            "move", {"characterId": Kind.encode_id("Character", hero["_id"]), "direction": direction}
        )

    async def handle_item(self) -> str:
        """Picks up something that lies in the room, or drops something."""
        hero = await self._hero()
        room = await self._gateway.db["game.locations"].find_one({"_id": hero["location"]["_id"]})
        assert room is not None
        mutation, items = self._rng.choice([("pickUp", room["items"]), ("drop", hero["items"])])
        if not items:
            return await self.walk()
        given = {"characterId": Kind.encode_id("Character", hero["_id"])}
        return await self._answer(mutation, {**given, "itemId": Kind.encode_id("Item", items[0]["_id"])})

    def _owner(self) -> str:
        return self._rng.choice(["demo", "mara"])

    async def grant(self) -> str:
        given = {"to": {"owner": self._owner()}, "category": "potion", "itemId": "healing", "name": "Potion of Healing"}
        return await self._answer("grant", {**given, "quantity": 2, "idempotencyKey": self._key()})

    async def consume(self) -> str:
        who = self._owner()
        stack = {"category": "potion", "itemId": "healing", "quantity": 1}
        return await self._answer(
            "consume", {"from": {"owner": who}, "stack": stack, "idempotencyKey": self._key()}, who
        )

    async def trade(self) -> str:
        if self._trades:
            given = {"id": self._trades.pop(), "idempotencyKey": self._key()}
            mutation, who = self._rng.choice([("acceptTrade", "mara"), ("cancelTrade", "demo")])
            return await self._answer(mutation, given, who)
        offers = [{"category": "coin", "itemId": "silver", "quantity": 1}]
        wants = [{"category": "potion", "itemId": "healing", "quantity": 1}]
        sides = {"from": {"owner": "demo"}, "to": {"owner": "mara"}, "offers": offers, "wants": wants}
        made = await self._call("offerTrade", {**sides, "idempotencyKey": self._key()})
        if "trade" in made:
            self._trades.append(made["trade"]["id"])
        return str(made["__typename"])

    # --------------------------------------------------------- ads and analytics

    async def serve_ads(self) -> str:
        site, zone = self._rng.choice(_PLACES)
        where = {"siteId": site, "zoneId": zone, "keywords": ["turntables"], "limit": 1}
        return await self._answer("serveAds", {**where, "userId": f"browser-{self._rng.randint(1, 20)}"})

    async def click_ad(self) -> str:
        given = {"kind": "CLICK", "userId": f"browser-{self._rng.randint(1, 20)}", "campaignId": "stylus:launch"}
        return await self._answer(
            "recordAdEvent", {**given, "siteId": "shop", "zoneId": "category", "adUnitId": "banner"}
        )

    async def place_ad(self) -> str:
        unit = f"unit-{self._next()}"
        ad = {"campaignId": "stylus:launch", "adUnitId": unit, "ecpm": 100, "keywords": [], "dailyCap": 5}
        site, zone = self._rng.choice(_PLACES)
        return await self._answer("placeAd", {"siteId": site, "zoneId": zone, "ad": ad})

    def _time(self) -> str:
        """Returns a time: now, or one of the days that the documentation shows, for data that comes late."""
        minutes = timedelta(minutes=self._rng.randrange(2 * 1_440))
        shown = datetime(2024, 12, 1, tzinfo=UTC) + minutes
        return (shown if self._rng.random() < _LATE else datetime.now(UTC)).isoformat()

    async def record_hits(self) -> str:
        site = self._rng.choice(["shop", "shop.example"])
        hits = [{"site": site, "page": self._rng.choice(_PAGES), "at": self._time()} for _ in range(5)]
        return await self._answer("recordHits", hits)

    async def log_events(self) -> str:
        events = [
            {"host": f"203.0.113.{self._rng.randint(1, 9)}", "time": self._time(), "path": self._rng.choice(_PAGES)}
            for _ in range(5)
        ]
        return await self._answer("logEvents", [{**event, "eventId": self._key()} for event in events])

    async def record_session(self) -> str:
        session = {"userId": self._rng.choice(["ada", "demo"]), "at": self._time(), "length": 60.0}
        return await self._answer("recordSessions", [{**session, "eventId": self._key()}])


def _kinds(mix: DailyWrites) -> Kinds:
    """Returns how many of a thousand writes are of each kind, and what makes one."""
    return _of_catalog_and_shop(mix) | _of_others(mix)


def _of_catalog_and_shop(mix: DailyWrites) -> Kinds:
    return {
        "fill a cart": (90, mix.fill_cart),
        "change a cart": (45, mix.change_cart),
        "check out": (45, mix.check_out),
        "cancel an order": (10, mix.cancel_order),
        "ship an order": (20, mix.ship_order),
        "restock": (20, mix.restock),
        "deposit": (20, mix.deposit),
        "transfer": (30, mix.transfer),
        "change a price": (35, mix.change_price),
        "describe a product": (15, mix.describe),
        "create a product": (15, mix.create_product),
        "delete a product": (10, mix.delete_product),
        "rename a category": (5, mix.rename_category),
    }


def _of_others(mix: DailyWrites) -> Kinds:
    return {
        "edit a page": (15, mix.edit_page),
        "tag content": (15, mix.tag),
        "write a blog entry": (5, mix.write_entry),
        "comment": (60, mix.comment),
        "edit a comment": (20, mix.edit_comment),
        "delete a comment": (10, mix.delete_comment),
        "post": (50, mix.post),
        "comment on a post": (50, mix.comment_on_post),
        "vote": (30, mix.vote),
        "change a circle": (20, mix.change_circle),
        "block or unblock": (10, mix.block),
        "change a profile": (10, mix.change_profile),
        "read notifications": (25, mix.read_notifications),
        "walk": (60, mix.walk),
        "pick up or drop": (30, mix.handle_item),
        "grant": (15, mix.grant),
        "consume": (15, mix.consume),
        "offer, accept or cancel a trade": (20, mix.trade),
        "serve ads": (60, mix.serve_ads),
        "click on an ad": (15, mix.click_ad),
        "place an ad": (5, mix.place_ad),
        "record hits": (50, mix.record_hits),
        "log events": (40, mix.log_events),
        "record a session": (10, mix.record_session),
    }
