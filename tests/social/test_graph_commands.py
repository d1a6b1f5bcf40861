"""The commands of the social graph: their number, their shards, their indexes, and what they cost in a large graph."""

from __future__ import annotations

import random
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.social import members, relations
from portico.resolvers.social.names import searched
from tests.social.support.members import ADD, BLOCK, JOIN, REMOVE, UNBLOCK, UPDATE
from tests.social.support.social import block, circle, join, user_id
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock
from tests.support.plans import documents_examined, keys_examined, plans_of
from tests.support.sending import assert_sends, names

ME = "tester"
MEMBERS, RELATIONS, RATES = "social.members", "social.relations", "social.rates"
LARGE = 100_000 if IS_SOAK else 5_000
# Index keys and documents that a page of 20 members examines at most, among them the members themselves.
MOST_EXAMINED = 250
# The shard key begins with the member. So these go to the shards with the member's relations: one, or few.
OF_ONE_MEMBER = {
    f"aggregate {RELATIONS} follower of",
    f"aggregate {RELATIONS} circles of",
    f"aggregate {RELATIONS} blocks of",
    f"find {RELATIONS} blocks of",
}

READS: dict[str, tuple[str, list[str]]] = {
    "a member": ("query ($bo: ID!) { user(id: $bo) { name } }", [f"find {MEMBERS}", f"find {RELATIONS}"]),
    "oneself": ("{ viewer { user { name profile { about } } } }", [f"find {MEMBERS}"]),
    "two members": (
        "query ($bo: ID!, $cy: ID!) { nodes(ids: [$bo, $cy]) { ... on User { name } } }",
        [f"find {MEMBERS}", f"find {RELATIONS}"],
    ),
    "the followers of two members": (
        """query ($bo: ID!, $cy: ID!) {
          nodes(ids: [$bo, $cy]) { ... on User { followers { nodes { name } pageInfo { hasNextPage } } } }
        }""",
        [f"aggregate {RELATIONS}", f"find {MEMBERS}", f"find {RELATIONS}", f"find {RELATIONS}"],
    ),
    "all circles with their members": (
        "{ viewer { user { circles { name members { nodes { name } } } } } }",
        [f"aggregate {RELATIONS}", f"aggregate {RELATIONS}", f"find {MEMBERS}", f"find {RELATIONS}"],
    ),
    "the blocked members": (
        "{ viewer { blockedUsers { nodes { name } } } }",
        [f"aggregate {RELATIONS}", f"find {RELATIONS}"],
    ),
    "the first blocked members": (
        "{ viewer { user { blocked { name } } } }",
        [f"find {MEMBERS}", f"find {MEMBERS}", f"find {RELATIONS}", f"find {RELATIONS}"],
    ),
}


async def prepare(gateway: GatewayClient) -> dict[str, Any]:
    await join(gateway.db, ME, "bo", "cy", "di")
    await circle(gateway.db, ME, "bo", name="one")
    await circle(gateway.db, ME, "cy", name="two")
    await circle(gateway.db, "bo", "cy", ME)
    await circle(gateway.db, "cy", "bo")
    await block(gateway.db, ME, "di")
    return {"bo": user_id("bo"), "cy": user_id("cy")}


async def test_every_read_sends_few_indexed_commands_and_each_to_one_shard(gateway: GatewayClient) -> None:
    known = await prepare(gateway)
    for name, (text, expected) in READS.items():
        variables = {key: value for key, value in known.items() if f"${key}" in text}
        astray = await assert_sends(gateway, gateway.data(text, variables), expected, name)

        assert set(astray) <= OF_ONE_MEMBER, name


# The members, what is known of the other, the rate, the change, its copy, and the end of its mark.
_CHANGE = [f"find {MEMBERS}", f"find {RELATIONS}", f"findAndModify {RELATIONS}"]
_MARKED = [f"update {RATES}", f"update {RELATIONS}", f"update {RELATIONS}"]
WRITES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "joining again": (JOIN, {"name": "Ada"}, [f"find {MEMBERS}", f"insert {MEMBERS}"]),
    "another name": (
        UPDATE,
        {"name": "Ada"},
        [f"find {MEMBERS}", f"find {MEMBERS}", f"update {MEMBERS}", "update social.rates"],
    ),
    # One more read, for a circle that was removed from the list or an author who became merged meanwhile.
    "a member of a circle": (ADD, {"userId": user_id("bo"), "circle": "two"}, [f"find {MEMBERS}", *_CHANGE, *_MARKED]),
    "the same again": (ADD, {"userId": user_id("bo"), "circle": "two"}, [f"find {MEMBERS}", f"find {RELATIONS}"]),
    "a new circle": (
        ADD,
        {"userId": user_id("bo"), "circle": "new"},
        [f"find {MEMBERS}", *_CHANGE, f"update {MEMBERS}", *_MARKED],
    ),
    "leaving the last circle": (REMOVE, {"userId": user_id("cy"), "circle": "two"}, [*_CHANGE, *_MARKED]),
    "a block": (BLOCK, {"userId": user_id("cy")}, [*_CHANGE, *_MARKED]),
    "the end of a block": (UNBLOCK, {"userId": user_id("di")}, [*_CHANGE, *_MARKED]),
}


async def test_every_write_sends_few_indexed_commands_and_each_to_one_shard(gateway: GatewayClient) -> None:
    await prepare(gateway)
    for name, (text, given, expected) in WRITES.items():
        gateway.clock.advance(seconds=60)
        shown = text.replace("user { id name profile { about location website birthYear interests } }", "__typename")

        assert await assert_sends(gateway, gateway.data(shown, {"input": given}), expected, name) == [], name


def member(subject: str) -> Document:
    known: Document = {
        "_id": subject,
        "name": subject,
        "profile": {},
        "circles": ["large", "small", *"abc"],
        "joined": None,
    }
    return {**known, **searched(subject), "schema_version": members.MEMBERS.version}


def relation(of: str, to: str, **values: Any) -> Document:
    return {**relations.key_of(of, to), "version": 1, "copied": 1, **values}


async def insert(db: Database, collection: str, documents: list[Document]) -> None:
    for start in range(0, len(documents), 20_000):
        await db[collection].insert_many(documents[start : start + 20_000], ordered=False)


async def build_large(db: Database, clock: SettableClock) -> None:
    """`ME` has 100,000 followers, and follows as many in a large circle, 50 of them also in a small one.

    Bo follows 20,000, and has 50 followers among them. Only members whom a test reads have a document.
    """
    since = clock.now()
    fans = [f"fan-{number:06}" for number in range(LARGE)]
    idols = [f"idol-{number:06}" for number in range(LARGE)]
    some = {*random.Random(1).sample(idols[: LARGE // 5], 50)}
    await insert(db, MEMBERS, [member(subject) for subject in {ME, "bo", *fans[:100], *idols[:100], *some}])
    await insert(db, RELATIONS, [relation(ME, fan, in_circles=["a"], follower=since) for fan in fans])
    circles = [["large", "small"] if idol in some else ["large"] for idol in idols]
    followed = zip(idols, circles, strict=True)
    await insert(db, RELATIONS, [relation(ME, idol, circles=names, since=since) for idol, names in followed])
    back = [{"in_circles": ["b"], "follower": since} if idol in some else {} for idol in idols]
    followed_by_bo = list(zip(idols, back, strict=True))[: LARGE // 5]
    await insert(
        db, RELATIONS, [relation("bo", idol, circles=["a"], since=since, **more) for idol, more in followed_by_bo]
    )


PAGE = "{ nodes { name } pageInfo { endCursor hasNextPage } }"


async def examined(gateway: GatewayClient, text: str, variables: dict[str, Any]) -> tuple[Any, int, list[str]]:
    """Returns the data of a query, how many documents and keys its commands examined, and the commands."""
    gateway.commands.clear()
    data = await gateway.data(text, variables)
    commands = list(gateway.commands.sent)
    plans = await plans_of(gateway)
    return data, documents_examined(plans) + keys_examined(plans), names(commands)


async def test_a_page_costs_the_same_in_a_graph_of_any_size(gateway: GatewayClient, clock: SettableClock) -> None:
    await build_large(gateway.db, clock)
    circles = f"{{ viewer {{ user {{ circles {{ name members(first: 20) {PAGE} }} }} }} }}"
    followers = f"query ($id: ID!, $after: String) {{ user(id: $id) {{ followers(first: 20, after: $after) {PAGE} }} }}"
    after, pages = None, []
    for _ in range(3):
        data, cost, commands = await examined(gateway, followers, {"id": user_id(ME), "after": after})
        page = data["user"]["followers"]
        after = page["pageInfo"]["endCursor"]
        pages.append((len(page["nodes"]), commands))
        assert cost <= MOST_EXAMINED
    few, cost_of_few, _ = await examined(gateway, followers, {"id": user_id("bo"), "after": None})
    shown, cost_of_circles, _ = await examined(gateway, circles, {})
    given = {"userId": user_id("bo"), "circle": "large"}
    await gateway.data(ADD, {"input": given})
    _, cost_of_change, _ = await examined(gateway, REMOVE, {"input": given})
    # The test's database is then dropped, which is faster than emptying it.
    await gateway.db[RELATIONS].drop_index("uncopied.at_1")

    assert pages == [(20, [f"aggregate {RELATIONS}", f"find {MEMBERS}", f"find {RELATIONS}"])] * 3
    assert (len(few["user"]["followers"]["nodes"]), cost_of_few <= MOST_EXAMINED) == (20, True)
    members = {one["name"]: len(one["members"]["nodes"]) for one in shown["viewer"]["user"]["circles"]}
    assert (members, cost_of_circles <= 2 * MOST_EXAMINED) == ({"large": 20, "small": 20}, True)
    assert cost_of_change <= MOST_EXAMINED / 4
