"""Lists of posts and of comments, compared with a plain list: pages in both directions, between random changes."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.documents import Document
from portico.resolvers.social import post_comments, post_edits
from portico.schema.kinds import Kind
from tests.social.support.post_reads import as_member, post_id
from tests.social.support.posts import deliver, later, op, write_comment, write_post
from tests.social.support.social import block, join, user_id
from tests.support.harness import IS_SOAK, GatewayClient

_ARGUMENTS = "$first: Int, $after: String, $last: Int, $before: String"
_PASSED = "first: $first, after: $after, last: $last, before: $before"
_INFO = "pageInfo { hasNextPage hasPreviousPage startCursor endCursor }"
# How often a list changes, and is read again.
STEPS = 25 if IS_SOAK else 12
# How a list is read: the text before the list, its field, the selection on a row, and the braces that it closes.
LISTS = {
    "wall": ("user(id: $id) {", "wall", "id"),
    "feed": ("viewer {", "newsFeed", "id"),
    "incoming": ("viewer {", "incoming", "id"),
    "timeline": ("", "publicPosts", "id"),
    "hidden posts": ("viewer {", "hiddenPosts", "postId"),
    "comments": ("node(id: $id) { ... on Post {", "comments", "id"),
    "hidden comments": ("node(id: $id) { ... on Post {", "hiddenComments", "commentId"),
}


@dataclass
class Row:
    """A row of the model. It keeps its place when it is removed, and the cursors that clients have of it."""

    key: Any
    id: str
    cursors: list[str] = field(default_factory=list)
    is_there: bool = True


class Lists:
    """A list of the gateway, read by `v`, and its model: the rows in the order of the list."""

    def __init__(self, gateway: GatewayClient, name: str, post: Document) -> None:
        self.gateway, self.name, self.post = gateway, name, post
        self.rows: list[Row] = []
        self.is_of_comments = "comments" in name
        # Those whose posts and comments are in the list, and are not. `v` has a block with `foe`.
        self.author, self.unseen = ("foe", "ann") if "hidden" in name else ("ann", "foe")
        self.start, self.times = later(0), itertools.count()

    async def add(self, author: str) -> None:
        row = await (self._add_comment(author) if self.is_of_comments else self._add_post(author))
        if author == self.author:
            self.rows.append(row)
            if not self.is_of_comments:
                self.rows.sort(key=lambda one: one.key, reverse=True)

    async def _add_comment(self, author: str) -> Row:
        key = await write_comment(self.gateway.db, self.post, author)
        return Row(key, Kind.encode_id("PostComment", key))

    async def _add_post(self, author: str) -> Row:
        # Two posts have one time.
        now = self.start + timedelta(seconds=next(self.times) // 2)
        to = "v" if self.name in {"incoming", "hidden posts"} else None
        post = await write_post(self.gateway.db, author, to=to, now=now)
        await deliver(self.gateway.db, now=later(1_000))
        return Row((post["posted"], post["_id"]), post_id(post))

    async def remove(self, row: Row) -> None:
        row.is_there = False
        if self.is_of_comments:
            await post_comments.delete_comment(
                self.gateway.db, post_id=self.post["_id"], comment_id=row.key, operation_id=op()
            )
        else:
            await post_edits.delete_post(self.gateway.db, post_id=row.key[1], now=later(0), operation_id=op())

    async def read(self, **given: Any) -> Any:
        opening, name, key = LISTS[self.name]
        declared = "$id: ID!, " if "$id" in opening else ""
        closing = "}" * opening.count("{")
        page = f"{name}({_PASSED}) {{ edges {{ cursor node {{ id: {key} }} }} {_INFO} }}"
        text = f"query ({declared}{_ARGUMENTS}) {{ {opening} {page} {closing} }}"
        own = {"id": post_id(self.post) if self.is_of_comments else user_id("ann")} if declared else {}
        data = await self.gateway.data(text, {**own, **given}, **as_member(self.gateway, "v"))
        while "edges" not in data:
            (data,) = data.values()
        return data

    async def learn(self) -> None:
        """Reads the whole list, and learns the cursors of its rows."""
        page = await self.read(first=100)
        there = [row for row in self.rows if row.is_there]
        assert [edge["node"]["id"] for edge in page["edges"]] == [row.id for row in there]
        for row, edge in zip(there, page["edges"], strict=True):
            if edge["cursor"] not in row.cursors:
                row.cursors.append(edge["cursor"])

    async def check(self, rng: random.Random) -> None:
        """Reads a page of the list, and compares it with the model."""
        size = rng.choice([1, 2, 5, 25, 60])
        known = [(place, cursor) for place, row in enumerate(self.rows) for cursor in row.cursors]
        place, cursor = rng.choice([(None, None), *known])
        if rng.random() < 0.5:
            behind = [row for row in self.rows[0 if place is None else place + 1 :] if row.is_there]
            page = await self.read(first=size, after=cursor)
            shown, info = behind[:size], {"hasNextPage": len(behind) > size}
            info["hasPreviousPage"] = cursor is not None
        else:
            before = [row for row in self.rows[:place] if row.is_there]
            page = await self.read(last=size, before=cursor)
            shown, info = before[-size:], {"hasPreviousPage": len(before) > size}
            info["hasNextPage"] = cursor is not None
        assert [edge["node"]["id"] for edge in page["edges"]] == [row.id for row in shown]
        assert {name: page["pageInfo"][name] for name in info} == info
        ends = (page["edges"][0]["cursor"], page["edges"][-1]["cursor"]) if shown else (None, None)
        assert (page["pageInfo"]["startCursor"], page["pageInfo"]["endCursor"]) == ends


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", LISTS)
async def test_pages_in_both_directions_are_those_of_a_list(gateway: GatewayClient, name: str, seed: int) -> None:
    rng = random.Random(seed)
    await join(gateway.db, "v", "ann", "foe", follows={"v": ["ann"]})
    lists = Lists(gateway, name, await write_post(gateway.db, "v") if "comments" in name else {})
    for number in range(80 if lists.is_of_comments else 40 if lists.author == "foe" else 12):
        await lists.add(lists.unseen if number % 4 == 3 else lists.author)
    await block(gateway.db, "v", "foe")
    for _ in range(STEPS):
        await lists.learn()
        for _ in range(4):
            await lists.check(rng)
        there = [row for row in lists.rows if row.is_there]
        if lists.author == "foe" or (rng.random() < 0.5 and there):
            await lists.remove(rng.choice(there))
        else:
            await lists.add("ann")
