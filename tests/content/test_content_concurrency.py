"""Concurrent edits of the site: each accepted text is kept, and every other editor gets a conflict."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.content import creation as content_creation
from portico.resolvers.content import deletion as content_deletion
from portico.resolvers.content import jobs as content_jobs
from portico.resolvers.content.creation import NewNode
from portico.resolvers.documents import Author
from portico.resolvers.errors import DomainError
from portico.schema.roles import Role
from tests.content.support.patches import patched
from tests.content.support.site import REVISIONS, at, create_page, create_section, own, page_input, section_input
from tests.support.domains import DOMAINS
from tests.support.harness import IS_SOAK, GatewayClient
from tests.support.ids import key_in
from tests.support.interruptions import database_of, delayed

pytestmark = pytest.mark.usefixtures("sound")
Given = dict[str, Any]
ROUNDS = 400 if IS_SOAK else 12


def kinds(results: list[Any]) -> Counter[str]:
    return Counter(result["__typename"] for result in results)


async def texts_of(gateway: GatewayClient, page: Given) -> list[Given]:
    """Return all revisions, oldest first."""
    found: list[Given] = []
    after = None
    while True:
        text = REVISIONS.replace("nodes {", "pageInfo { hasNextPage endCursor } nodes {")
        shown = (await gateway.data(text, {"id": page["id"], "after": after}))["node"]["revisions"]
        found += shown["nodes"]
        after = shown["pageInfo"]["endCursor"]
        if not shown["pageInfo"]["hasNextPage"]:
            return found[::-1]


async def test_exactly_one_of_two_concurrent_edits_is_saved_and_the_other_gets_a_conflict(
    gateway: GatewayClient,
) -> None:
    page = await create_page(gateway, text="top\n\nmiddle\n\nbottom\n")
    tokens = {name: gateway.token(name, [Role.EDITOR]) for name in ("ann", "bob")}
    accepted = [page["text"]]
    nonce = page["nonce"]
    for number in range(ROUNDS):
        base = accepted[-1]
        lines = base.split("\n")
        edits = {
            "ann": "\n".join([f"top {number} by ann", *lines[1:]]),
            "bob": "\n".join([*lines[:-2], f"bottom {number} by bob", ""]),
        }

        async def save(name: str, edits: dict[str, str] = edits, nonce: str = nonce) -> tuple[str, Given]:
            given = {"id": page["id"], "nonce": nonce, "text": edits[name]}
            return name, await gateway.result("editText", given, token=tokens[name])

        results = dict(await asyncio.gather(*(save(name) for name in random.Random(number).sample(sorted(edits), 2))))
        assert kinds(list(results.values())) == {"ContentPayload": 1, "EditConflict": 1}
        (winner,) = [name for name, result in results.items() if result["__typename"] == "ContentPayload"]
        (outcome,) = [result for result in results.values() if result["__typename"] == "EditConflict"]
        loser = "bob" if winner == "ann" else "ann"

        accepted.append(edits[winner])
        nonce = results[winner]["content"]["nonce"]
        assert outcome["current"]["nonce"] == nonce
        assert outcome["baseText"] == base
        assert patched(edits[winner], outcome["diff"]) == edits[loser]
        merged = outcome["mergedText"].split("\n")
        assert (merged[0], merged[-2]) == (edits["ann"].split("\n")[0], edits["bob"].split("\n")[-2])

    kept = await texts_of(gateway, page)
    assert [one["text"] for one in kept] == accepted
    assert kept[-1]["nonce"] == nonce


async def test_concurrent_editors_who_retry_with_the_merged_text_all_succeed(gateway: GatewayClient) -> None:
    editors = 12
    page = await create_page(gateway, slug="page", text="\n\n".join(f"line {number}" for number in range(editors)))

    async def save(number: int) -> int:
        nonce = page["nonce"]
        text = page["text"].replace(f"line {number}\n", f"line {number}!\n") + ("!" if number == editors - 1 else "")
        for attempt in range(100):
            given = {"id": page["id"], "nonce": nonce, "text": text}
            result = await gateway.result("editText", given)
            if result["__typename"] == "ContentPayload":
                return attempt
            nonce, text = result["current"]["nonce"], result["mergedText"]
            assert text is not None
        raise AssertionError(number)

    attempts = await asyncio.gather(*(save(number) for number in range(editors)))

    found = await at(gateway, "/page")
    assert max(attempts) > 0
    assert found["text"] == "\n\n".join(f"line {number}!" for number in range(editors))
    assert len(await texts_of(gateway, page)) == editors + 1


async def test_concurrent_edits_of_all_kinds_are_each_written_or_refused(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="0")
    (first,) = await texts_of(gateway, page)
    now = page
    rng = random.Random(5)
    for number in range(8):
        own = {"id": page["id"], "nonce": now["nonce"]}
        calls: list[tuple[str, Given]] = [
            ("editText", {**own, "text": str(number)}),
            ("editMetadata", {**own, "title": f"Title {number}"}),
            ("restoreRevision", {**own, "revisionId": first["id"]}),
            ("addTags", {"id": page["id"], "tags": [f"tag {number}"]}),
            ("addTags", {"id": page["id"], "tags": [f"other {number}"]}),
        ]
        rng.shuffle(calls)
        with database_of(gateway, delayed(gateway.db, rng, 0.005)):
            results = await asyncio.gather(*(gateway.result(mutation, given) for mutation, given in calls))

        assert kinds(results) == {"ContentPayload": 3, "EditConflict": 2}
        (now,) = [
            result["content"]
            for (mutation, _), result in zip(calls, results, strict=True)
            if mutation != "addTags" and result["__typename"] == "ContentPayload"
        ]

    assert len(await texts_of(gateway, page)) == 9
    tags = (await gateway.db["cms.nodes"].find_one({}) or {})["tags"]
    assert sorted(tags) == sorted(f"{kind} {number}" for kind in ("tag", "other") for number in range(8))


async def test_exactly_one_of_many_nodes_with_one_path_is_created(gateway: GatewayClient) -> None:
    folder = await create_section(gateway, slug="docs")
    place = {"slug": "same", "parentId": folder["id"]}

    results = await asyncio.gather(
        *(gateway.result("createPage", page_input(**place)) for _ in range(10)),
        *(gateway.result("createSection", section_input(**place)) for _ in range(10)),
    )

    assert kinds(results) == {"ContentPayload": 1, "SlugTaken": 19}
    assert await gateway.db["cms.nodes"].count_documents({"slug": "same"}) == 1


async def test_exactly_one_of_many_nodes_gets_a_slug(gateway: GatewayClient) -> None:
    pages = [await create_page(gateway) for _ in range(10)]

    results = await asyncio.gather(*(gateway.result("editMetadata", own(page, slug="same")) for page in pages))

    assert kinds(results) == {"ContentPayload": 1, "SlugTaken": 9}


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(6))
async def test_no_node_is_left_below_a_section_that_is_deleted_concurrently(gateway: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    section = await create_section(gateway)
    given = own(section)
    put = [gateway.result("createPage", page_input(parentId=section["id"])) for _ in range(3)]
    put += [gateway.result("createSection", section_input(parentId=section["id"])) for _ in range(3)]
    taken = [gateway.result("deleteContent", given) for _ in range(3)]
    calls = [*put, *taken]
    rng.shuffle(calls)

    with database_of(gateway, delayed(gateway.db, rng, 0.01)):
        found = kinds(await asyncio.gather(*calls))

    assert set(found) <= {"ContentPayload", "NotFound", "DeletedPayload", "SectionNotEmpty"}
    left = await gateway.db["cms.nodes"].count_documents({})
    if found["DeletedPayload"]:
        assert (found["DeletedPayload"], found["ContentPayload"], left) == (1, 0, 0)
    else:
        assert left == 1 + found["ContentPayload"]


@pytest.mark.parametrize("seed", range(8 if IS_SOAK else 2))
async def test_the_jobs_settle_what_random_crashes_of_writers_leave(gateway: GatewayClient, seed: int) -> None:
    rng = random.Random(seed)
    author: Author = {"id": "a", "name": "A"}
    sections = [await create_section(gateway) for _ in range(2)]

    async def write(number: int) -> None:
        section = key_in("ContentNode", rng.choice(sections)["id"])
        _, database = FaultyDatabase.around(gateway.db, rng.choice([None, *range(6)]))
        now, operation_id = gateway.clock.now(), f"r-{seed}-{number}"
        try:
            if rng.random() < 0.7:
                node = NewNode(f"page-{number}", "Page", author, section)
                await content_creation.create_page(database, node=node, text="x", now=now, operation_id=operation_id)
            else:
                found = await gateway.db["cms.nodes"].find_one({"_id": section})
                if found is not None:
                    await content_deletion.delete_content(
                        database,
                        DOMAINS.attachments,
                        node_id=section,
                        nonce=found["nonce"],
                        now=now,
                        operation_id=operation_id,
                    )
        except (Crash, DomainError):
            return

    async def jobs() -> None:
        for _ in range(5):
            await asyncio.sleep(0.02)
            gateway.clock.advance(seconds=6)
            await content_jobs.finish_changes(gateway.db, DOMAINS.attachments, now=gateway.clock.now())

    await asyncio.gather(*(write(number) for number in range(20)), jobs())
    gateway.clock.advance(seconds=6)
    await content_jobs.finish_changes(gateway.db, DOMAINS.attachments, now=gateway.clock.now())

    for mark in ("pending", "unrevised", "deleting"):
        assert await gateway.db["cms.nodes"].find_one({mark: {"$exists": True}}) is None
