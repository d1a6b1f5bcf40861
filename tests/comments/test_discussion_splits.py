"""Pages of comments while one of them is being split: every reader sees all earlier writes at each step."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.clock import SystemClock
from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.comments.backward_walks import BackwardWalk
from portico.resolvers.comments.buckets import FULL, finish_split
from portico.resolvers.comments.comments import THREADED, listing_of
from portico.resolvers.comments.discussions import PAGES
from portico.resolvers.documents import Document
from portico.testing.snapshots import Snapshot
from tests.comments.support.discussions import (
    backwards,
    by_time,
    count,
    delete,
    everything,
    fill,
    open_on_product,
    post,
    threaded,
    use_small_pages,
)
from tests.support.fixtures import settings_with
from tests.support.harness import IS_SOAK, GatewayClient, assert_invariants
from tests.support.ids import key_in

COLLECTIONS = ("discussions", "comments", "comment_pages", "comment_keys")
# How many changes `finish_split` makes. Without any, the page is only marked. After one, the comments behind the key
# are copied to a new page, and the old page still has them.
MARKED, COPIED = 0, 1
# The unfinished splits: of a page, and then of the new page behind it.
STEPS = {
    "marked": [MARKED],
    "copied": [COPIED],
    "copied, and the new page is marked": [COPIED, MARKED],
    "copied, and so is the new page": [COPIED, COPIED],
}
ORDERS: dict[str, dict[str, Any]] = {
    "threads": {},
    "the latest last": {"order": "CHRONOLOGICAL"},
    "the latest first": {"order": "NEWEST"},
    "threads to some depth": {"maxDepth": 2},
    "the latest last to some depth": {"order": "CHRONOLOGICAL", "maxDepth": 2},
}
ONE_BY_ONE = """
query ($ids: [ID!]!) {
  nodes(ids: $ids) { ... on Comment { slug text deleted replyCount parent { slug text deleted replyCount } } }
}
"""
ROWS = "nodes { slug text replyCount parent { slug } }"
BELOW = f"""
query ($ids: [ID!]!) {{
  nodes(ids: $ids) {{ ... on Comment {{ replies {{ {ROWS} }} thread(first: 60) {{ {ROWS} }} }} }}
}}
"""
LINKS = "query ($id: ID!) {{ node(id: $id) {{ ... on Discussion {{ {links} }} }} }}"
# A test reads everything at once.
settings = settings_with(max_cost=1_000_000)


async def split_in_turn(gateway: GatewayClient, page: Document, steps: list[int]) -> str:
    """Split the page in the middle, and then the new page. Return the first key of the new pages."""
    keys = sorted(cell["key"] for cell in page["comments"])
    middle: str = keys[len(keys) // 2]
    for step in steps:
        await split_up_to(gateway, page, keys[len(keys) // 2], step)
        keys = keys[len(keys) // 2 :]
        page = await gateway.db["comment_pages"].find_one({"low": keys[0]}) or page
    return middle


async def split_up_to(gateway: GatewayClient, page: Document, at: str, step: int) -> None:
    """Split the page at this key, up to a step."""
    mark = {"split": {"at": at, "since": SystemClock().now()}}
    await gateway.db["comment_pages"].update_one({"_id": page["_id"]}, {"$set": mark})
    _, database = FaultyDatabase.around(gateway.db, step)
    with pytest.raises(Crash):
        await finish_split(database, page)


async def finish_splits(gateway: GatewayClient) -> None:
    async for page in gateway.db["comment_pages"].find({"split": {"$exists": True}}):
        await finish_split(gateway.db, page)


async def pages_of(gateway: GatewayClient) -> list[Document]:
    """Return the pages that are large enough for two splits."""
    return await gateway.db["comment_pages"].find({"count": {"$gte": 4}}, sort=[("low", 1)]).to_list()


async def seen(gateway: GatewayClient, discussion: str, ids: list[str]) -> dict[str, Any]:
    """Return what each kind of read shows of the discussion and of these comments."""
    found: dict[str, Any] = {"count": await count(gateway, discussion)}
    for name, given in ORDERS.items():
        found[name] = await everything(gateway, discussion, 100, **given)
    for size in (3, 8):
        assert await everything(gateway, discussion, size) == found["threads"], size
        assert await backwards(gateway, discussion, size) == found["threads"], size
    found["one by one"] = (await gateway.data(ONE_BY_ONE, {"ids": ids}))["nodes"]
    there = [key for key, one in zip(ids, found["one by one"], strict=True) if one is not None]
    found["below"] = (await gateway.data(BELOW, {"ids": there}))["nodes"]
    slugs = {row["slug"] for row in found["threads"]}
    links = " ".join(f'c{n}: comment(slug: "{slug}") {{ slug text }}' for n, slug in enumerate(sorted(slugs)))
    found["links"] = (await gateway.data(LINKS.format(links=links), {"id": discussion}))["node"]
    return found


async def write_behind(gateway: GatewayClient, rows: list[Any], rng: random.Random, discussion: str) -> list[str]:
    """Post, edit and delete comments among these rows. Return the ids of the new comments."""
    token = gateway.token("poster", [])
    for row in rng.sample(rows, 2):
        await gateway.payload("editComment", {"id": row["id"], "text": "Edited."}, token=token)
    posted = [await post(gateway, discussion, "Reply.", rng.choice(rows)["slug"])]
    posted.append(await post(gateway, discussion, "Last."))
    childless = [row for row in rows if not row["replyCount"] and row["slug"] != posted[0]["slug"].rpartition("/")[0]]
    for row in childless[:1]:
        assert (await delete(gateway, row))["__typename"] == "CommentPayload"
    return [one["id"] for one in posted]


@pytest.mark.sample(2)
@pytest.mark.parametrize("step", STEPS)
async def test_every_reader_sees_the_writes_during_a_split(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Finishing the split does not change what readers see."""
    use_small_pages(monkeypatch, 8)
    rng = random.Random(3)
    discussion = await open_on_product(gateway, PAGES)
    posted = await fill(gateway, discussion, rng, 36)
    rows = await everything(gateway, discussion)
    keys = {row["_id"]: row["key"] async for row in gateway.db["comment_keys"].find({})}
    snapshot = Snapshot(gateway.db, COLLECTIONS)
    await snapshot.take()
    pages = await pages_of(gateway)
    for page in pages if IS_SOAK else pages[1:2]:
        await snapshot.restore()
        middle = await split_in_turn(gateway, page, STEPS[step])
        behind = [row for row in rows if middle <= keys[key_of(row)] < page["high"]]
        fresh = await write_behind(gateway, behind, rng, discussion)
        ids = [*(one["id"] for one in posted), *fresh]

        shown = await seen(gateway, discussion, ids)
        await finish_splits(gateway)

        assert shown["threads"] == threaded(shown["threads"])
        assert shown["the latest last"] == sorted(shown["threads"], key=by_time)
        assert shown["the latest first"] == shown["the latest last"][::-1]
        assert len(shown["threads"]) == shown["count"]
        assert [row["text"] for row in shown["threads"]].count("Edited.") in {1, 2}
        assert shown == await seen(gateway, discussion, ids)
        await assert_invariants(gateway)


@pytest.mark.sample(2)
@pytest.mark.parametrize("passed", [0, 1])
async def test_a_walk_backwards_misses_no_comments_that_move_behind_it(gateway: GatewayClient, passed: int) -> None:
    """A page is split in one command of the walk, or between two, and comments move to where the walk has been."""
    discussion = await open_on_product(gateway, PAGES)
    for number in range(2 * FULL + 10):
        await post(gateway, discussion, f"{number}")
    listing = listing_of(PAGES, key_in("Discussion", discussion), order=THREADED, max_depth=None).reversed()
    walk = BackwardWalk(listing, limit=150, after=None)
    pages = [await latest_first(gateway, {}, place) for place in range(3)]
    if passed:
        # The last page was read by an earlier command.
        walk.asked, walk.limit = 1, 500
        walk.take(pages[:1])
    await split_up_to(gateway, pages[1], sorted(cell["key"] for cell in pages[1]["comments"])[50], COPIED)
    await finish_splits(gateway)
    halved = await latest_first(gateway, {"_id": pages[1]["_id"]})

    walk.asked = 3 - passed
    walk.take([*pages[passed:1], halved, pages[2]])

    assert not walk.is_done
    while not walk.is_done:
        walk.take(await (await gateway.db["comment_pages"].aggregate(walk.stages(0))).to_list())
    assert [row["text"] for row in walk.rows][:150] == [str(number) for number in reversed(range(60, 210))]


async def latest_first(gateway: GatewayClient, query: Document, place: int = 0) -> Document:
    """Return a page of the discussion, from the last, with its comments in the order in which the walk reads them."""
    found = await gateway.stored("comment_pages", query, sort=[("low", -1)], skip=place)
    return {**found, "comments": sorted(found["comments"], key=lambda cell: str(cell["key"]), reverse=True)}


async def test_readers_from_the_end_see_all_earlier_comments_while_others_post(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_pages(monkeypatch, 8)
    discussion = await open_on_product(gateway, PAGES)
    told = [await post(gateway, discussion, f"{number}") for number in range(20)]
    is_over = False

    async def write(rng: random.Random) -> None:
        for number in range(25):
            told.append(await post(gateway, discussion, f"Reply {number}.", rng.choice(told)["slug"]))

    async def read() -> None:
        while not is_over:
            before = {one["slug"] for one in told}
            slugs = [row["slug"] for row in await backwards(gateway, discussion, 100)]
            assert before <= set(slugs)
            assert len(set(slugs)) == len(slugs)

    reading = asyncio.create_task(read())
    await asyncio.gather(*(write(random.Random(seed)) for seed in range(3)))
    is_over = True
    await reading

    assert len(await backwards(gateway, discussion, 100)) == 95
    await assert_invariants(gateway)


async def test_a_walk_backwards_ends_behind_a_lost_page(gateway: GatewayClient) -> None:
    discussion = await open_on_product(gateway, PAGES)
    for number in range(2 * FULL + 10):
        await post(gateway, discussion, f"{number}")
    lost = await gateway.stored("comment_pages", sort=[("low", 1)], skip=1)
    await gateway.db["comment_pages"].delete_one({"_id": lost["_id"]})

    assert len(await backwards(gateway, discussion)) == FULL + 10


def key_of(comment: Any) -> ObjectId:
    found: ObjectId = key_in("Comment", comment["id"]).id
    return found


async def test_a_reply_to_a_copied_comment_is_listed(gateway: GatewayClient) -> None:
    """So much of a page is deleted that a list also reads the page behind it."""
    discussion = await open_on_product(gateway, PAGES)
    posted = [await post(gateway, discussion, f"{number}") for number in range(2 * FULL + 50)]
    for one in posted[FULL + 5 : 2 * FULL]:
        await delete(gateway, one)
    _, page, _ = await pages_of(gateway)
    keys = sorted(cell["key"] for cell in page["comments"])
    await split_up_to(gateway, page, keys[2], COPIED)
    await post(gateway, discussion, "Reply.", posted[FULL + 3]["slug"])
    edited = {"id": posted[FULL + 4]["id"], "text": "Edited."}
    await gateway.result("editComment", edited, token=gateway.token("poster", []))

    for size in (7, 24, 100):
        texts = [row["text"] for row in await everything(gateway, discussion, size)]

        first, last = [str(number) for number in range(FULL + 4)], [str(number) for number in range(2 * FULL, 250)]
        assert texts == [*first, "Reply.", "Edited.", *last], size
        assert [row["text"] for row in await backwards(gateway, discussion, size)] == texts, size
    assert len(texts) == await count(gateway, discussion)
