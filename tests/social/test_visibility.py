"""What two members who have blocked each other see, and every way to read posts, compared with a model of the rules."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.errors import NotFound
from portico.resolvers.social import member_edits, post_comments, post_edits, post_lists, renames
from tests.social.support.members import BLOCK, UNBLOCK, call
from tests.social.support.model import Model, ModelPost
from tests.social.support.post_reads import all_posts_in, as_member, post_id
from tests.social.support.posts import deliver, later, op, who, write_post
from tests.social.support.social import block, block_each_other, circle, join, operation, unblock, uncircle, user_id
from tests.support.fixtures import settings_with
from tests.support.harness import GatewayClient
from tests.support.machines import examples, step_lists

MEMBER = """
  id name profile { about location website birthYear interests } circles { name } blocked { id }
  followers { nodes { id } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } }
  wall { nodes { id } }
"""
BLOCKED = f"""{{ viewer {{
  user {{ blocked {{ {MEMBER} }} }}
  blockedUsers(first: 10) {{ nodes {{ {MEMBER} }} edges {{ node {{ id }} }} pageInfo {{ hasNextPage }} }}
}} }}"""
# A test reads everything at once.
settings = settings_with(max_cost=1_000_000)


async def blocked_by(gateway: GatewayClient, viewer: str) -> list[Any]:
    """Returns those whom the viewer has blocked. Both lists have the same."""
    found = (await gateway.data(BLOCKED, **as_member(gateway, viewer)))["viewer"]
    members: list[Any] = found["user"]["blocked"]
    assert found["blockedUsers"]["nodes"] == members
    assert [edge["node"]["id"] for edge in found["blockedUsers"]["edges"]] == [member["id"] for member in members]
    return members


async def rename(gateway: GatewayClient, member: str, name: str) -> None:
    await member_edits.update_profile(gateway.db, subject=member, name=name, profile={"about": "New"}, **operation())
    await renames.copy_name(gateway.db, member, name)


def shown(subject: str, name: str) -> dict[str, Any]:
    nothing = {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None}
    return {
        "id": user_id(subject),
        "name": name,
        "profile": {"about": None, "location": None, "website": None, "birthYear": None, "interests": []},
        "circles": None,
        "blocked": None,
        "followers": {"nodes": [], "pageInfo": nothing},
        "wall": {"nodes": []},
    }


async def test_each_of_two_who_block_each_other_finds_the_other(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", about="Old", follows={"cem": ["ann", "bob"]})
    await write_post(gateway.db, "ann")
    own = await write_post(gateway.db, "bob", to="ann")
    await block_each_other(gateway.db, "bob", "ann")
    await rename(gateway, "ann", "Ann, who is new")
    await rename(gateway, "bob", "Bob, who is new")

    # Bob has blocked Ann while he saw her, and sees his own post. Ann did not see Bob any more.
    assert await blocked_by(gateway, "bob") == [{**shown("ann", "Ann"), "wall": {"nodes": [{"id": post_id(own)}]}}]
    assert await blocked_by(gateway, "ann") == [shown("bob", "bob")]

    assert (await call(gateway, UNBLOCK, "bob", userId=user_id("ann")))["__typename"] == "NotFound"
    assert await blocked_by(gateway, "bob") == []
    assert (await call(gateway, UNBLOCK, "ann", userId=user_id("bob")))["user"]["name"] == "Bob, who is new"
    assert await blocked_by(gateway, "ann") == []


async def test_a_second_block_shows_no_newer_name(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await block_each_other(gateway.db, "bob", "ann")
    await rename(gateway, "ann", "Ann, who is new")
    assert [one["name"] for one in await blocked_by(gateway, "bob")] == ["Ann"]

    for _ in range(2):
        await call(gateway, UNBLOCK, "bob", userId=user_id("ann"))
        assert (await call(gateway, BLOCK, "bob", userId=user_id("ann")))["__typename"] == "NotFound"

    assert [one["name"] for one in await blocked_by(gateway, "bob")] == ["ann"]


async def test_a_block_of_an_earlier_version_shows_the_subject(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await block_each_other(gateway.db, "bob", "ann")
    await gateway.db["social.relations"].update_many({}, {"$unset": {"known_as": ""}})

    assert [one["name"] for one in await blocked_by(gateway, "bob")] == ["ann"]


@pytest.mark.parametrize("first", ["ann", "bob"])
async def test_who_has_not_blocked_the_viewer_is_shown_as_they_are(gateway: GatewayClient, first: str) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"cem": ["ann"]})
    await block_each_other(gateway.db, first, "bob" if first == "ann" else "ann")
    await block(gateway.db, "bob", "cem")
    await unblock_quietly(gateway, "ann", "bob")
    await rename(gateway, "ann", "Ann, who is new")

    ann, cem = await blocked_by(gateway, "bob")

    assert (ann["name"], ann["profile"]["about"], ann["followers"]["nodes"]) == (
        "Ann, who is new",
        "New",
        [{"id": user_id("cem")}],
    )
    assert cem["name"] == "Cem"


async def unblock_quietly(gateway: GatewayClient, member: str, other: str) -> None:
    """Takes a block back. The answer is NotFound if the other member has blocked this one."""
    assert (await call(gateway, UNBLOCK, member, userId=user_id(other)))["__typename"] == "NotFound"


async def test_the_owner_of_a_wall_who_has_blocked_the_author_is_not_named(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "bob", to="ann")
    read = "{ viewer { user { wall { nodes { id to { userId name user { name } } by { name } } } } } }"
    before = (await gateway.data(read, **as_member(gateway, "bob")))["viewer"]["user"]["wall"]["nodes"]
    assert before[0]["to"] == {"userId": "ann", "name": "Ann", "user": {"name": "Ann"}}
    await block(gateway.db, "ann", "bob")
    await rename(gateway, "ann", "Ann, who is new")

    [row] = (await gateway.data(read, **as_member(gateway, "bob")))["viewer"]["user"]["wall"]["nodes"]

    assert (row["to"], row["by"]) == (None, {"name": "Bob"})
    await unblock(gateway.db, "ann", "bob")
    await block(gateway.db, "bob", "ann")
    # Bob sees whom he has blocked.
    [row] = (await gateway.data(read, **as_member(gateway, "bob")))["viewer"]["user"]["wall"]["nodes"]
    assert row["to"]["name"] == "Ann, who is new"
    assert post["to"]["name"] == "Ann"


EVERYBODY = ["ann", "bob", "cem", "dan"]
VIEWERS = [*EVERYBODY, "guest", None]
CIRCLES = ["a.b", "$x", "friends"]
SHOWN = "id circles commentCount latestComments { text }"
SELECTION = f"(first: 10) {{ nodes {{ {SHOWN} }} }}"
WHO = st.sampled_from(EVERYBODY)
WHICH = st.integers(0, 30)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["circle", "circle", "uncircle"]), WHO, WHO, st.sampled_from(CIRCLES)),
    st.tuples(st.sampled_from(["block", "unblock"]), WHO, WHO, st.none()),
    st.tuples(
        st.just("post"),
        WHO,
        WHO,
        st.tuples(st.sampled_from(["PUBLIC", "CIRCLES", "SELECTED"]), WHICH, st.sampled_from([1, 100, 100, 100])),
    ),
    st.tuples(st.just("comment"), WHO, WHICH, st.sampled_from([1, 2, 3, 25])),
    st.tuples(st.sampled_from(["delete", "delete comment"]), WHO, WHICH, WHICH),
)


class Network:
    """The network under test, and the model, which take the same steps."""

    def __init__(self, gateway: GatewayClient) -> None:
        self.gateway, self.db = gateway, gateway.db
        self.model = Model(EVERYBODY)
        self.ids: dict[str, ObjectId] = {}
        self.comments: dict[str, ObjectId] = {}

    async def take(self, step: Any) -> None:
        name, who_, other, detail = step
        if name in {"comment", "delete", "delete comment"}:
            await self._change_post(name, who_, other, detail)
        elif name == "post":
            await self._post(who_, other, *detail)
        elif who_ != other:
            await self._relate(name, who_, other, detail)

    async def _relate(self, name: str, one: str, other: str, circle_name: str) -> None:
        circles = self.model.circles_with(one, other)
        try:
            if name == "circle":
                await circle(self.db, one, other, name=circle_name)
            elif name == "uncircle":
                await uncircle(self.db, one, other, name=circle_name)
            else:
                await (block if name == "block" else unblock)(self.db, one, other)
        except NotFound:
            # The others take effect nevertheless.
            assert (other, one) in self.model.blocks
            if name == "circle":
                return
        else:
            assert (other, one) not in self.model.blocks
        if name == "circle":
            circles.add(circle_name)
        elif name == "uncircle":
            circles.discard(circle_name)
        elif name == "block":
            self.model.blocks.add((one, other))
        else:
            self.model.blocks.discard((one, other))

    async def _post(self, author: str, owner: str, audience: str, which: int, max_fan_out: int) -> None:
        names = sorted(self.model.circles_of(author))
        circles = [names[which % len(names)]] if audience == "SELECTED" and names else []
        audience = audience if circles or audience != "SELECTED" else "CIRCLES"
        moment = later(100 + len(self.model.posts))
        try:
            stored = await write_post(self.db, author, to=owner, audience=audience, circle_names=circles, now=moment)
        except NotFound:
            assert self.model.has_block(author, owner)
            return
        await deliver(self.db, now=later(1_000), max_fan_out=max_fan_out)
        post = ModelPost(post_id(stored), author, owner, audience, circles)
        if len(self.model.followers(author)) > max_fan_out:
            self.model.merged.add(author)
        if author not in self.model.merged:
            post.sent = {one for one in self.model.followers(author) if self.model.is_in(one, post)}
        self.model.posts.append(post)
        self.ids[post.key] = stored["_id"]

    async def _change_post(self, name: str, member: str, which: int, detail: int) -> None:
        seen = self.model.newest(member)
        if not seen:
            return
        post = seen[which % len(seen)]
        key = self.ids[post.key]
        if name == "delete":
            await post_edits.delete_post(self.db, post_id=key, now=later(1), operation_id=op())
            post.is_deleted = True
        elif name == "comment":
            for _ in range(detail):
                text = f"Comment {len(self.comments)}"
                self.comments[text] = await post_comments.comment_on_post(
                    self.db, post_id=key, author=who(member), text=text, now=later(1), operation_id=op()
                )
                post.comments.append((member, text))
        elif post.comments:
            _, text = post.comments.pop(detail % len(post.comments))
            await post_comments.delete_comment(self.db, post_id=key, comment_id=self.comments[text], operation_id=op())

    async def compare(self, viewer: str | None) -> None:
        """Reads everything as this viewer, and compares it with the model."""
        model = self.model
        lists = {f"wall_{name}": f'user(id: "{user_id(name)}") {{ list: wall{SELECTION} }}' for name in EVERYBODY}
        if viewer is not None:
            lists["news"] = f"viewer {{ list: newsFeed{SELECTION} }}"
            lists["incoming"] = f"viewer {{ list: incoming{SELECTION} }}"
        fields = " ".join(f"{name}: {text}" for name, text in lists.items()) + f" timeline: publicPosts{SELECTION}"
        data = await self.gateway.data(f"{{ {fields} }}", **as_member(self.gateway, viewer))
        found = {name: data[name] and data[name]["list"]["nodes"] for name in lists}
        assert data["timeline"]["nodes"] == [model.shown(viewer, post) for post in model.timeline(viewer)[:10]]
        expected: dict[str, Any] = {f"wall_{name}": model.wall(viewer, name) for name in EVERYBODY}
        if viewer is not None:
            expected |= {"news": model.news_feed(viewer), "incoming": model.incoming(viewer)}
        assert found == {
            name: None if posts is None else [model.shown(viewer, post) for post in posts[:10]]
            for name, posts in expected.items()
        }
        assert await self._nodes(viewer) == [
            {**model.shown(viewer, post), "comments": {"nodes": model.comments(viewer, post)[:100]}}
            if model.sees(viewer, post)
            else None
            for post in model.posts
        ]

    async def _nodes(self, viewer: str | None) -> list[Any]:
        shown = f"{SHOWN} comments(first: 100) {{ nodes {{ text }} }}"
        query = f"query ($ids: [ID!]!) {{ nodes(ids: $ids) {{ ... on Post {{ {shown} }} }} }}"
        ids = [post.key for post in self.model.posts]
        data = await self.gateway.data(query, {"ids": ids}, **as_member(self.gateway, viewer))
        return list(data["nodes"])


@examples(short=6)
@given(steps=step_lists(STEPS), rounds=st.sampled_from([0, 1]))
async def test_every_list_shows_exactly_what_the_rules_allow(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, steps: list[Any], rounds: int
) -> None:
    # With 0, lists take the walks that lead past hidden posts from the beginning.
    monkeypatch.setattr(post_lists, "_ROUNDS_OF_ALL", rounds)
    for name in ("members", "relations", "posts", "comment_pages", "votes", "news"):
        await gateway.db[f"social.{name}"].delete_many({})
    await join(gateway.db, *EVERYBODY)
    network = Network(gateway)
    for step in steps:
        await network.take(step)
    for viewer in VIEWERS:
        await network.compare(viewer)
    wanted = [post.key for post in network.model.news_feed("ann")]
    assert await all_posts_in(gateway, "ann", "newsFeed", size=2) == wanted
    assert await all_posts_in(gateway, "ann", "newsFeed", size=2, backwards=True) == wanted
    for viewer, owner in (("ann", "ann"), ("bob", "ann"), (None, "cem")):
        wall = [post.key for post in network.model.wall(viewer, owner) or ()]
        assert await all_posts_in(gateway, viewer, f"wall of {owner}", size=2, backwards=True) == wall
