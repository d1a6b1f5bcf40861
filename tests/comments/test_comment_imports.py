"""Imports of comments: threads, times, and the effect of a repeated import."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.domains.comments.reddit import Threads
from portico.gateway.imports.runs import BadRecord, Import
from portico.resolvers.comments.discussions import PAGES, discussion_id
from portico.resolvers.comments.rules import require_comment_text
from portico.resolvers.content.creation import NewNode, create_page
from portico.resolvers.documents import Author
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_products, product
from tests.comments.support.discussions import ON_EACH, by_time, count, everything, threaded
from tests.support import real_data
from tests.support.domains import IMPORTERS
from tests.support.harness import IS_SOAK, GatewayClient, assert_invariants

Line = dict[str, Any]


async def imported(
    gateway: GatewayClient, folder: Path, *lines: Line, options: dict[str, Any] | None = None
) -> tuple[Counter[str], list[str]]:
    """Import the lines. Return the count of each outcome, and the reasons of the rejected records."""
    bad: list[BadRecord] = []
    file = real_data.write(folder / "comments.jsonl", list(lines))
    importer = IMPORTERS["comments"].configured(options or {})
    work = Import(gateway.db, importer, SystemClock(), bad.append, lambda _: None, gateway.state.resources)
    summary = await work.run([file])
    return summary.counts, [f"{one.line}: {one.reason}" for one in bad]


def line(name: str, parent: str | None = None, **fields: Any) -> Line:
    return {
        "product": "p",
        "id": name,
        "parent": parent,
        "author": "alienth",
        "posted": f"2011-12-08T03:02:{len(name):02}Z",
        "text": f"Text of {name}.",
        **fields,
    }


def discussion_on(key: str) -> str:
    return Kind.encode_id("Discussion", discussion_id("Product", key))


@ON_EACH
async def test_comments_are_imported_once_in_any_order(gateway: GatewayClient, tmp_path: Path, storage: str) -> None:
    await add_products(gateway.db, [product(sku="p")])
    lines = [
        line("aaa", "aa", storage=storage, edited="2011-12-09T00:00:00Z"),
        line("aa", "a", storage=storage),
        line("a", storage=storage),
        line("bb", "a", storage=storage),
    ]

    first = await imported(gateway, tmp_path, *lines)
    again = await imported(gateway, tmp_path, *lines[::-1])
    changed = await imported(gateway, tmp_path, lines[0], {**lines[3], "text": "Another text."})

    assert first == (Counter(created=4), [])
    assert again == (Counter(unchanged=4), [])
    assert changed == (Counter(unchanged=1, changed=1), [])
    rows = await everything(gateway, discussion_on("p"))
    assert rows == threaded(rows)
    assert {row["text"]: (row["depth"], row["replyCount"], row["posted"]) for row in rows} == {
        "Text of a.": (0, 2, "2011-12-08T03:02:01.000Z"),
        "Text of aa.": (1, 1, "2011-12-08T03:02:02.000Z"),
        "Text of aaa.": (2, 0, "2011-12-08T03:02:03.000Z"),
        "Another text.": (1, 0, "2011-12-08T03:02:02.000Z"),
    }
    assert await count(gateway, discussion_on("p")) == 4
    await assert_invariants(gateway)


async def test_comments_are_imported_to_the_node_at_a_path(gateway: GatewayClient, tmp_path: Path) -> None:
    author: Author = {"id": "e", "name": "E"}
    node = NewNode("about", "About", author, None, [])
    page = await create_page(gateway.db, node=node, text="Text.", now=SystemClock().now(), operation_id="r-1")
    given = {**line("a"), "content": "/about", "product": None}

    found = await imported(gateway, tmp_path, given, {**given, "id": "b", "content": "/nowhere"})

    assert found == (Counter(created=1, failed=1), ["2: there is no product or content node '/nowhere'"])
    discussion = (await gateway.data('{ content(path: "/about") { id discussion { commentCount } } }'))["content"]
    assert discussion == {"id": Kind.encode_id("ContentNode", page["_id"]), "discussion": {"commentCount": 1}}


@ON_EACH
async def test_an_import_does_not_restore_a_deleted_comment(
    gateway: GatewayClient, tmp_path: Path, storage: str
) -> None:
    await add_products(gateway.db, [product(sku="p")])
    lines = [line("a", storage=storage), line("aa", "a"), line("aaa", "aa"), line("b")]
    await imported(gateway, tmp_path, *lines)
    rows = {row["text"]: row for row in await everything(gateway, discussion_on("p"))}
    for name in ("a", "aaa", "aa"):
        await gateway.payload("deleteComment", {"id": rows[f"Text of {name}."]["id"]})

    # The second import has another order, and a reply to a removed comment.
    again = await imported(gateway, tmp_path, *lines)
    more = await imported(gateway, tmp_path, *lines[::-1], line("c", "aa"))

    assert again == (Counter(unchanged=4), [])
    assert more == (Counter(unchanged=4, failed=1), ["5: parent: the comment that it replies to was deleted"])
    assert [row["text"] for row in await everything(gateway, discussion_on("p"))] == ["Text of b."]
    assert await count(gateway, discussion_on("p")) == 1
    await assert_invariants(gateway)


async def test_a_reply_to_a_deleted_comment_is_rejected_with_its_line(gateway: GatewayClient, tmp_path: Path) -> None:
    await add_products(gateway.db, [product(sku="p")])
    await imported(gateway, tmp_path, line("a"), line("aa", "a"))
    top, _ = await everything(gateway, discussion_on("p"))
    await gateway.result("deleteComment", {"id": top["id"]})

    found = await imported(gateway, tmp_path, line("a"), line("aa", "a"), line("ab", "a"))

    reason = "3: parent: the comment that it replies to was deleted"
    assert found == (Counter(unchanged=2, failed=1), [reason])


BAD: dict[str, tuple[Line, str]] = {
    "no subject": (line("a", product=None), "either `content` or `product` is required"),
    "two subjects": (line("a", content="/about"), "either `content` or `product` is required"),
    "a path for a SKU": (
        line("a", product="/about"),
        "product: `content` must begin with a slash, and `product` must not",
    ),
    "no such product": (line("a", product="none"), "there is no product or content node 'none'"),
    "no text": (line("a", text=""), "text: Text must not be empty."),
    "no author": (line("a", author=" "), "author: Author must not be empty."),
    "no time": (line("a", posted="yesterday"), "posted: "),
    "a time of the future": (line("a", posted="9999-12-31T23:59:59.999Z"), "posted: it is in the future"),
    "an edit of the future": (line("a", edited="2999-01-01T00:00:00Z"), "edited: it is in the future"),
    "no such storage": (line("a", storage="HEAP"), "storage: it must be one of DOCUMENTS, EMBEDDED, PAGES"),
    "no such parent": (line("a", "z"), "parent: there is no comment 'z'"),
    "its own parent": (line("a", "a"), "parent: there is no comment 'a'"),
    "an unknown field": (line("a", score=2), ""),
}


@pytest.mark.parametrize("name", BAD)
async def test_an_invalid_record_is_rejected_with_its_line_and_reason(
    gateway: GatewayClient, tmp_path: Path, name: str
) -> None:
    await add_products(gateway.db, [product(sku="p")])
    given, reason = BAD[name]

    counts, reasons = await imported(gateway, tmp_path, given, line("good"))

    assert counts == Counter(created=1, failed=1)
    assert reasons[0].startswith(f"1: {reason}")
    assert len(reasons) == 1


def exported(name: str, parent: str = "t3_one", **fields: Any) -> Line:
    """Return a line in the export format."""
    return {
        "name": f"t1_{name}",
        "id": name,
        "parent_id": parent,
        "link_id": "t3_one",
        "author": "alienth",
        "body": f"Text of {name} &amp; more.",
        "created_utc": 1323313370.0,
        "edited": False,
        "score": 2,
        **fields,
    }


async def test_exported_comments_are_imported_to_the_subject_of_their_thread(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    await add_products(gateway.db, [product(sku="p"), product(sku="q")])
    lines = [
        exported("b", "t1_a", created_utc="1323313371", edited=1323313399.0),
        exported("a", author=None, edited=True),
        exported("c", "t3_two", link_id="t3_two"),
        line("own"),
    ]

    found = await imported(gateway, tmp_path, *lines, options={"on": ["t3_one=p", "q"], "storage": PAGES})
    again = await imported(gateway, tmp_path, *lines, options={"on": ["t3_one=p", "q"]})

    assert (found, again) == ((Counter(created=4), []), (Counter(unchanged=4), []))
    rows = await everything(gateway, discussion_on("p"))
    assert [(row["text"], row["author"]["userId"], row["depth"], row["posted"]) for row in rows] == [
        ("Text of own.", "alienth", 0, "2011-12-08T03:02:03.000Z"),
        ("Text of a & more.", "[deleted]", 0, "2011-12-08T03:02:50.000Z"),
        ("Text of b & more.", "alienth", 1, "2011-12-08T03:02:51.000Z"),
    ]
    assert await count(gateway, discussion_on("q")) == 1
    opened = await gateway.db["discussions"].distinct("storage")
    assert opened == [PAGES]


async def test_an_invalid_exported_comment_is_rejected_with_its_line_and_reason(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    await add_products(gateway.db, [product(sku="p")])
    lines = [
        exported("a", link_id="t3_two"),
        exported("a", created_utc=1e300),
        exported("a", created_utc=None),
        exported("a", "t4_b"),
        exported("a", body=""),
        exported("a", body=None),
        exported("a", link_id=7),
        exported("a", "t1_gone"),
    ]

    counts, reasons = await imported(gateway, tmp_path, *lines, options={"on": ["t3_one=p"]})

    assert counts == Counter(failed=len(lines))
    assert sorted(reasons) == [
        "1: link_id: give the subject of t3_two: --on t3_two=PATH, or =SKU",
        "2: created_utc: it must be in seconds since 1970",
        "3: created_utc: it must be in seconds since 1970",
        "4: parent_id: it must begin with t1_ or t3_",
        "5: text: Text must not be empty.",
        "6: text: is missing",
        "7: link_id: it must begin with t3_",
        "8: parent: there is no comment 't1_gone'",
    ]


def test_a_thread_has_one_subject() -> None:
    with pytest.raises(ValueError, match="two subjects for"):
        Threads.of(["t3_one=p", "t3_one=/about"])
    with pytest.raises(ValueError, match="two subjects for"):
        Threads.of(["p", "/about"])


async def test_an_import_of_real_threads_matches_their_file(gateway: GatewayClient, tmp_path: Path) -> None:
    threads = [thread for thread in real_data.THREADS if IS_SOAK or thread not in real_data.LONG_THREADS]
    lines = [one for one in real_data.discussions() if one["product"] in threads]
    await add_products(gateway.db, [product(sku=thread) for thread in threads])
    for thread in threads:
        given = {"subjectId": Kind.encode_id("Product", thread), "storage": real_data.THREADS[thread]}
        await gateway.result("openDiscussion", given)

    # These records have the export format.
    rows = [one for one in real_data.rows("reddit_comments") if one["link_id"] in threads]
    assert await imported(gateway, tmp_path, *rows, options={"on": [f"{thread}={thread}" for thread in threads]}) == (
        Counter(created=len(lines)),
        [],
    )

    await assert_invariants(gateway)
    for thread in threads:
        here = [one for one in lines if one["product"] == thread]
        rows = await everything(gateway, discussion_on(thread))
        assert rows == threaded(rows)
        assert await everything(gateway, discussion_on(thread), order="CHRONOLOGICAL") == sorted(rows, key=by_time)
        assert len(rows) == await count(gateway, discussion_on(thread)) == len(here)
        texts = {one["id"]: require_comment_text(one["text"]) for one in here}
        wanted = Counter((one["author"], texts[one["id"]], texts.get(one["parent"])) for one in here)
        by_slug = {row["slug"]: row["text"] for row in rows}
        assert wanted == Counter(
            (row["author"]["userId"], row["text"], row["parent"] and by_slug[row["parent"]["slug"]]) for row in rows
        )
