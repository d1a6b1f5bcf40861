"""The commands that operations on the site send: their number, their shards, and their indexes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bson import ObjectId

from portico.resolvers.content import checks
from portico.resolvers.content import jobs as content_jobs
from portico.schema.kinds import Kind
from tests.content.support.site import (
    FUTURE,
    REVISIONS,
    create_entry,
    create_page,
    create_section,
    entry_input,
    own,
    page_input,
    section_input,
)
from tests.support.domains import DOMAINS, migrate
from tests.support.explaining import explain
from tests.support.harness import MUTATIONS, GatewayClient, SettableClock
from tests.support.interruptions import crashing
from tests.support.routing import unroutable
from tests.support.sending import assert_indexed, assert_sends, names, sent

Given = dict[str, Any]
NODES, TEXTS = "cms.nodes", "cms.revisions"
# The shard key is the section of a node. A command that knows only the id of a node goes to all shards.
BY_ID = "find cms.nodes _id"
FILES_OF_NODE = "find cms.assets.files metadata.node metadata.removed"

READS: dict[str, tuple[str, list[str], set[str]]] = {
    "a node at the root": ('{ content(path: "/docs") { title path } }', [f"find {NODES}"], set()),
    "a node three levels down": (
        '{ content(path: "/docs/inner/page-0") { path ... on Page { text html } } }',
        [f"find {NODES}"] * 3,
        set(),
    ),
    "several nodes at once": (
        """
        {
          a: content(path: "/docs/inner/page-0") { path } b: content(path: "/docs/inner/page-1") { title }
          c: content(path: "/blog/entry-0") { path } d: content(path: "/none/at/all") { path }
        }
        """,
        [f"find {NODES}"] * 6,
        set(),
    ),
    "the paths of all that is in a section": (
        '{ content(path: "/docs/inner") { ... on Section { children { nodes { path parent { title } } } } } }',
        [f"find {NODES}"] * 4,
        {BY_ID},
    ),
    "the entries of a blog with their texts": (
        '{ content(path: "/blog") { ... on Section { entries { nodes { title html publishOn tags } } } } }',
        [f"find {NODES}"] * 2,
        set(),
    ),
    "what has a tag, wherever it stands": (
        '{ contentByTag(tag: "t") { nodes { title path } } }',
        [f"find {NODES}"] * 2,
        {"find cms.nodes tags", "find cms.nodes tags visible_from", BY_ID},
    ),
    "the sections in a section with what is in each": (
        """
        { content(path: "/docs") { ... on Section { children { nodes { ... on Section {
          title children(first: 2) { nodes { title } } entries(first: 2) { nodes { title } }
        } } } } } }
        """,
        [f"aggregate {NODES}", f"aggregate {NODES}", f"find {NODES}", f"find {NODES}"],
        set(),
    ),
}


async def scene(gateway: GatewayClient) -> dict[str, Given]:
    docs = await create_section(gateway, slug="docs")
    inner = await create_section(gateway, slug="inner", parentId=docs["id"])
    other = await create_section(gateway, slug="other", parentId=docs["id"])
    blog = await create_section(gateway, "BLOG", slug="blog")
    pages = [await create_page(gateway, slug=f"page-{number}", tags=["t"], parentId=inner["id"]) for number in range(4)]
    for number in range(4):
        await create_entry(gateway, blog, slug=f"entry-{number}", tags=["t"])
    await create_entry(gateway, blog, slug="future", publishOn=FUTURE, tags=["t"])
    return {"docs": docs, "inner": inner, "other": other, "blog": blog, "page": pages[0], "gone": pages[1]}


async def test_every_read_sends_few_indexed_commands(gateway: GatewayClient) -> None:
    await scene(gateway)
    for name, (text, expected, to_all) in READS.items():
        for token in ("", None):
            astray = await assert_sends(gateway, gateway.data(text, token=token), expected, name)

            assert set(astray) <= to_all, name


async def test_revisions_are_read_by_one_command_on_one_shard(gateway: GatewayClient) -> None:
    page = await create_page(gateway)
    for number in range(4):
        given = own(page, text=str(number))
        page = (await gateway.result("editText", given))["content"]
    text = REVISIONS.replace("first: 100", "first: 2").replace("nodes {", "pageInfo { endCursor } nodes {")
    after = None
    for verb in ("find", "aggregate"):
        variables = {"id": page["id"], "after": after}
        expected = sorted([f"find {NODES}", f"{verb} {TEXTS}"])

        assert await assert_sends(gateway, gateway.data(text, variables), expected, verb) == [BY_ID]

        after = (await gateway.data(text, variables))["node"]["revisions"]["pageInfo"]["endCursor"]
    (revision,) = [one async for one in gateway.db[TEXTS].find({"number": 1})]
    by_id = {"id": Kind.encode_id("Revision", revision["_id"])}
    commands = await sent(gateway, gateway.data("query ($id: ID!) { node(id: $id) { id } }", by_id))
    assert (names(commands), unroutable(commands)) == ([f"find {TEXTS}"], [])


# An edit reads the node, writes it, copies its text to a revision, and removes the mark. Without a text it copies
# nothing.
WRITES: dict[str, tuple[str, Any, list[str]]] = {
    "a section at the root": ("createSection", lambda _: section_input(), [f"insert {NODES}"]),
    "a page at the root": (
        "createPage",
        lambda _: page_input(),
        [f"insert {NODES}", f"insert {TEXTS}", f"update {NODES}"],
    ),
    "an entry": (
        "createBlogEntry",
        lambda known: entry_input(known["blog"]),
        [f"find {NODES}", f"find {NODES}", f"insert {NODES}", f"insert {TEXTS}", f"update {NODES}"],
    ),
    "another text": (
        "editText",
        lambda known: own(known["page"], text="x"),
        [f"find {NODES}", f"findAndModify {NODES}", f"insert {TEXTS}", f"update {NODES}"],
    ),
    "a text that comes too late": (
        "editText",
        lambda known: own(known["page"], text="y"),
        [f"find {NODES}", f"find {TEXTS}"],
    ),
    "another title of a section": (
        "editMetadata",
        lambda known: own(known["docs"], title="x"),
        [f"find {NODES}", f"findAndModify {NODES}"],
    ),
    "more tags": (
        "addTags",
        lambda known: {"id": known["page"]["id"], "tags": ["a"]},
        [f"find {NODES}", f"findAndModify {NODES}"],
    ),
    "fewer tags": (
        "removeTags",
        lambda known: {"id": known["page"]["id"], "tags": ["a"]},
        [f"find {NODES}", f"findAndModify {NODES}"],
    ),
    "deleting a page": (
        "deleteContent",
        lambda known: own(known["gone"]),
        [
            f"delete {NODES}",
            f"delete {TEXTS}",
            "delete intents",
            "find cms.assets.files",
            f"find {NODES}",
            f"find {NODES}",
            "update discussions",
            "update intents",
        ],
    ),
    "deleting a section": (
        "deleteContent",
        lambda known: own(known["other"]),
        [
            f"delete {NODES}",
            f"delete {TEXTS}",
            "delete intents",
            "find cms.assets.files",
            *[f"find {NODES}"] * 3,
            f"update {NODES}",
            "update discussions",
            "update intents",
        ],
    ),
}


async def test_every_write_sends_few_commands_and_each_to_one_shard_once_the_node_is_read(
    gateway: GatewayClient,
) -> None:
    known = await scene(gateway)
    for name, (mutation, make, expected) in WRITES.items():
        given = make(known)
        kind = "Tags" if mutation.endswith("Tags") else mutation[0].upper() + mutation[1:]
        text = f"mutation ($input: {kind}Input!) {{ {mutation}(input: $input) {{ __typename }} }}"
        astray = await assert_sends(gateway, gateway.data(text, {"input": given}), expected, name)

        # A node does not list its files.
        assert set(astray) <= {BY_ID, FILES_OF_NODE}, name


async def test_jobs_and_checks_use_indexes_and_write_to_one_shard(gateway: GatewayClient, clock: SettableClock) -> None:
    known = await scene(gateway)
    for mutation, given, stop in (
        ("createPage", page_input(parentId=known["docs"]["id"]), 1),
        ("editText", own(known["page"], text="x"), 1),
        ("deleteContent", own(known["other"]), 2),
        ("deleteContent", own(known["gone"]), 1),
    ):
        with crashing(gateway, stop) as faulty:
            await gateway.ask(MUTATIONS[mutation], {"input": given})
        assert faulty.has_crashed
    gateway.commands.clear()

    settled = await content_jobs.finish_changes(gateway.db, DOMAINS.attachments, now=clock.now() + timedelta(seconds=6))
    for check in (checks.find_wrong_nodes, checks.find_wrong_revisions):
        assert [problem async for problem in check(gateway.db)] == []
    assert [one async for one in migrate(gateway.db)] == []

    commands: list[Mapping[str, Any]] = [
        command for command in gateway.commands.sent if command[next(iter(command))] in {NODES, TEXTS}
    ]
    assert settled == 4
    assert set(unroutable(commands)) <= {
        BY_ID,
        "find cms.nodes deleting.at",
        "find cms.nodes pending.at",
        "find cms.nodes $or upgrade_failed",
        "find cms.nodes unrevised.at",
        "find cms.nodes ",
        "find cms.nodes type unrevised",
        "find cms.revisions ",
    }
    await assert_indexed(gateway, commands)


async def test_a_page_of_a_long_list_examines_few_more_documents_than_it_shows(gateway: GatewayClient) -> None:
    blog = await create_section(gateway, "BLOG", slug="blog")
    await create_entry(gateway, blog, slug="first", tags=["t"])
    one = await gateway.stored(NODES, {"slug": "first"})
    day = timedelta(days=1)
    await gateway.db[NODES].insert_many(
        [
            {
                **one,
                "_id": ObjectId(),
                "slug": f"entry-{number}",
                "created": one["created"] - number * day,
                "visible_from": one["visible_from"] - number * day,
                "detail": {"text": "x", "publish_on": one["visible_from"] - number * day},
            }
            for number in range(2_000)
        ]
    )
    lists = {
        "entries": '{ list: content(path: "/blog") { ... on Section { page: entries(first: 20 AFTER) ROWS } } }',
        "children": '{ list: content(path: "/blog") { ... on Section { page: children(first: 20 AFTER) ROWS } } }',
        "tags": '{ page: contentByTag(tag: "t", first: 20 AFTER) ROWS }',
    }
    rows = "{ nodes { slug } pageInfo { endCursor } }"
    for name, text in lists.items():
        after = ""
        query = text.replace("ROWS", rows)
        for _ in range(30):
            data = await gateway.data(query.replace("AFTER", after), token=None)
            page = (data.get("list") or data)["page"]
            after = f', after: "{page["pageInfo"]["endCursor"]}"'
        query = query.replace("AFTER", after)
        commands = await sent(gateway, gateway.data(query, token=None))
        plans = [plan for command in commands for plan in await explain(gateway.db, command)]

        assert sum(plan.documents_examined for plan in plans) <= 30, name
