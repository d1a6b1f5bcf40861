"""Members who post, comment, vote, follow, block and delete at random, and a ledger of what they are told."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.social import post_jobs
from portico.testing.kits import mutation_text
from tests.social.support.social import FRIENDS, circle, join, user_id
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, new_key
from tests.support.ids import decode_id
from tests.support.kills import Client, Clients, turns

EXTRA = "ex.$tra \u2615"
FOLLOWED = 3
OPTIONS = ["Yes", "No", "Later"]
_numbers = itertools.count(1)
_POST = "... on PostPayload { post { id } }"
_USER = "... on UserPayload { user { id } }"
MUTATIONS = {
    name: mutation_text(SCHEMA._schema, name, selection)
    for name, selection in {
        **dict.fromkeys(("createPost", "commentOnPost", "vote"), _POST),
        "deletePost": "... on DeletedPayload { deletedId }",
        **dict.fromkeys(("addToCircle", "removeFromCircle", "block", "unblock"), _USER),
    }.items()
}
NODE = "query ($id: ID!) { node(id: $id) { id } }"


@dataclass
class Network:
    """The state of the social network that follows from the answers to all writes.

    A value is None if it is unknown: a call can take effect and answer NotFound when it is repeated, because its caller
    has been blocked in between. `uncertain` has the texts of such comments.
    """

    members: Sequence[str]
    posts: dict[str, str] = field(default_factory=dict)
    polls: list[str] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    comments: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    uncertain: set[str] = field(default_factory=set)
    votes: dict[tuple[str, str], int | None] = field(default_factory=dict)
    circles: dict[tuple[str, str], bool | None] = field(default_factory=dict)
    blocks: dict[tuple[str, str], bool] = field(default_factory=dict)
    stale_reads: int = 0
    operations: Counter[str] = field(default_factory=Counter)

    def followed_by(self, member: str) -> list[str]:
        """The members whom this member follows all the time."""
        place = self.members.index(member)
        return [self.members[(place + step) % len(self.members)] for step in range(1, FOLLOWED + 1)]


async def prepared_network(db: Database, count: int) -> Network:
    """Makes members, each of whom follows the next ones."""
    network = Network([f"member-{number}" for number in range(count)])
    await join(db, *network.members)
    for member in network.members:
        await circle(db, member, *network.followed_by(member))
    return network


@dataclass
class SocialWriter:
    """Acts for some of the members, one call after the other, and notes what it is told."""

    client: Client
    network: Network
    own: Sequence[str]
    tokens: dict[str, str]
    rng: random.Random

    async def run(self, seconds: float) -> None:
        acts: list[Callable[[str], Awaitable[None]]] = [
            self.post,
            self.post,
            self.poll,
            self.comment,
            self.comment,
            self.comment,
            self.vote,
            self.delete,
            self.change_circle,
            self.change_block,
        ]
        for _ in turns(seconds, self.network.operations):
            await self.rng.choice(acts)(self.rng.choice(self.own))

    async def call(self, member: str, mutation: str, given: dict[str, Any]) -> Any:
        """Returns the payload; None if the answer is that there is no such post or member."""
        key = {"idempotencyKey": new_key()}
        while True:
            variables = {"input": {**given, **key}}
            result = (await self.client.ask(MUTATIONS[mutation], variables, token=self.tokens[member]))[mutation]
            if result["__typename"] != "Conflict":
                break
        self.network.operations[mutation] += 1
        if result["__typename"] == "NotFound":
            return None
        assert result["__typename"] in {"PostPayload", "UserPayload", "DeletedPayload"}, result
        return result

    async def sees(self, member: str, global_id: str) -> bool:
        found = await self.client.ask(NODE, {"id": global_id}, token=self.tokens[member])
        return found["node"] is not None

    async def post(self, member: str) -> None:
        audience = self.rng.choice(["PUBLIC", "PUBLIC", "CIRCLES", "SELECTED"])
        given: dict[str, Any] = {"detail": {"status": {"text": f"Post {next(_numbers)}"}}, "audience": audience}
        if audience == "SELECTED":
            given["circles"] = [FRIENDS]
        if self.rng.random() < 0.2:
            given["toId"] = user_id(self._another(member))
        await self._create(member, given)

    async def poll(self, member: str) -> None:
        given = {"detail": {"poll": {"text": "A question", "options": OPTIONS}}}
        if (created := await self._create(member, given)) is not None:
            self.network.polls.append(created)

    async def _create(self, member: str, given: dict[str, Any]) -> str | None:
        result = await self.call(member, "createPost", given)
        if result is None:
            return None
        created: str = result["post"]["id"]
        self.network.posts[created] = member
        self.network.stale_reads += not await self.sees(member, created)
        return created

    async def comment(self, member: str) -> None:
        if (post := self._some(list(self.network.posts))) is None:
            return
        text = f"Comment {next(_numbers)}"
        if await self.call(member, "commentOnPost", {"postId": post, "text": text}) is None:
            self.network.uncertain.add(text)
        else:
            self.network.comments[post].add(text)

    async def vote(self, member: str) -> None:
        if (post := self._some(self.network.polls)) is None:
            return
        option = self.rng.randrange(len(OPTIONS))
        is_counted = await self.call(member, "vote", {"postId": post, "option": option}) is not None
        self.network.votes[post, member] = option if is_counted else None

    async def delete(self, member: str) -> None:
        own = [post for post, by in self.network.posts.items() if by == member and post not in self.network.deleted]
        if (post := self._some(own)) is None:
            return
        self.network.deleted.add(post)
        await self.call(member, "deletePost", {"postId": post})
        self.network.stale_reads += await self.sees(self.rng.choice(self.network.members), post)

    async def change_circle(self, member: str) -> None:
        other = self._another(member)
        is_in = not self.network.circles.get((member, other), False)
        given = {"userId": user_id(other), "circle": EXTRA}
        done = await self.call(member, "addToCircle" if is_in else "removeFromCircle", given)
        # A removal takes effect even if its answer is NotFound.
        self.network.circles[member, other] = is_in if done is not None or not is_in else None

    async def change_block(self, member: str) -> None:
        other = self._another(member)
        is_blocked = not self.network.blocks.get((member, other), False)
        await self.call(member, "block" if is_blocked else "unblock", {"userId": user_id(other)})
        self.network.blocks[member, other] = is_blocked
        if is_blocked:
            self.network.stale_reads += await self.sees(other, user_id(member))

    def _another(self, member: str) -> str:
        return self.rng.choice([other for other in self.network.members if other != member])

    def _some(self, found: Sequence[str]) -> str | None:
        # The latest ones, so that some posts get many comments.
        return self.rng.choice(found[-12:]) if found else None


async def assert_network_is_as_told(gateway: GatewayClient, network: Network) -> None:
    """Checks posts, comments, votes, relations and news feeds. All jobs must have run."""
    found = {post["_id"]: post async for post in gateway.db["social.posts"].find({"deleted": {"$exists": False}})}
    alive = {decode_id(post)[1]: post for post in network.posts if post not in network.deleted}
    assert {key: post["by"]["id"] for key, post in found.items()} == {
        key: network.posts[post] for key, post in alive.items()
    }
    for key, post in found.items():
        assert "fan_out" not in post
        texts = await _comments(gateway.db, post)
        told = network.comments[alive[key]]
        assert len(texts) == len(set(texts)) == post["comment_count"]
        assert told <= set(texts) <= told | network.uncertain, alive[key]
        await _assert_votes(gateway.db, post, alive[key], network)
        if post["audience"] == "PUBLIC":
            entries = {entry["of"] async for entry in gateway.db["social.news"].find({"post": key})}
            by = post["by"]["id"]
            assert {member for member in network.members if by in network.followed_by(member)} <= entries, alive[key]
    deleted = {post["_id"] async for post in gateway.db["social.posts"].find({"deleted": {"$exists": True}})}
    assert await _posts_in_feeds(gateway.db) <= found.keys() | deleted
    # A process that was suspended may have delivered a post after its deletion. What it has left goes with the post.
    await post_jobs.finish_posts(gateway.db, now=gateway.state.clock.now() + 2 * post_jobs.KEPT)
    assert await _posts_in_feeds(gateway.db) <= found.keys()
    await _assert_relations(gateway.db, network)
    assert network.stale_reads == 0


async def _posts_in_feeds(db: Database) -> set[ObjectId]:
    return {entry["post"] async for entry in db["social.news"].find()}


async def _comments(db: Database, post: Document) -> list[str]:
    pages = await db["social.comment_pages"].find({"post": post["_id"]}).to_list()
    valid = [page for page in pages if page["_id"]["page"] < post["spilled"]]
    return [comment["text"] for holder in (*valid, post) for comment in holder["comments"]]


async def _assert_votes(db: Database, post: Document, global_id: str, network: Network) -> None:
    slots = await db["social.votes"].find({"post": post["_id"]}).to_list()
    stored = {voter["id"]: voter["option"] for slot in slots for voter in slot["voters"]}
    told = {voter: option for (poll, voter), option in network.votes.items() if poll == global_id}
    known = {voter: option for voter, option in told.items() if option is not None}
    assert {voter: option for voter, option in stored.items() if voter in known} == known
    assert stored.keys() <= told.keys()
    counted = Counter(stored.values())
    assert all(sum(slot["votes"][option] for slot in slots) == counted[option] for option in range(len(OPTIONS)))


async def _assert_relations(db: Database, network: Network) -> None:
    relations = {(one["of"], one["to"]): one async for one in db["social.relations"].find()}
    for pair, is_in in network.circles.items():
        assert is_in is None or (EXTRA in relations.get(pair, {}).get("circles", ())) == is_in, pair
    for pair, is_blocked in network.blocks.items():
        assert bool(relations.get(pair, {}).get("blocks")) == is_blocked, pair


class Social:
    """Writers, each of whom acts for some of the members."""

    _network: Network
    operations: Counter[str]

    def __init__(self, members: int, writers: int) -> None:
        self._members = members
        self._writers = writers
        self._tokens: dict[str, str] = {}

    async def prepare(self, gateway: GatewayClient) -> None:
        self._network = await prepared_network(gateway.db, self._members)
        self.operations = self._network.operations
        self._tokens = {member: gateway.token(member, []) for member in self._network.members}

    def actors(self, clients: Clients) -> list[SocialWriter]:
        owns = [self._network.members[number :: self._writers] for number in range(self._writers)]
        return [
            SocialWriter(clients.connect(), self._network, own, self._tokens, random.Random(number))
            for number, own in enumerate(owns)
        ]

    async def check(self, gateway: GatewayClient) -> None:
        await assert_network_is_as_told(gateway, self._network)
