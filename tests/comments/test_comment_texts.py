"""The texts that a comment may have, and their rendered HTML."""

from __future__ import annotations

import html
import time
from typing import Any

import bson
import pytest

from portico.resolvers.comments import embedded_storage as comment_embedded
from portico.resolvers.comments.discussions import EMBEDDED
from portico.resolvers.comments.rules import LONGEST, MAX_LINES, require_comment_text
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import MAX_MARKS
from portico.schema.markdown import comment_html
from tests.comments.support.discussions import ON_EACH, count, everything, open_on_product, page, post, post_input
from tests.content.support.attacks import ATTACKS, harm_in
from tests.support.harness import GatewayClient, assert_invariants

GOOD = {
    "plain": ("Good.", "Good."),
    "with blanks around it": (" \n\tGood.\n ", "Good."),
    "with the line ends of other systems": ("a\r\nb\rc\u2028d\x0be", "a\nb\nc\nd\ne"),
    "in Vietnamese, taken apart": ("Tie\u0302\u0301ng Vie\u0323\u0302t", "Tie\u0302\u0301ng Vie\u0323\u0302t"),
    "with pictures and joiners": ("👩‍👩‍👧‍👦 🏳️‍🌈", "👩‍👩‍👧‍👦 🏳️‍🌈"),
    "from right to left": (
        "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd\u200f!",
        "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd\u200f!",
    ),
    "as long as may be": ("x" * LONGEST, "x" * LONGEST),
    "with as many lines": ("x\n" * MAX_LINES, ("x\n" * MAX_LINES).strip()),
    "with what would be a path": ("$slug $$this", "$slug $$this"),
}
BAD = {
    "nothing": "",
    "blanks": " \n\t ",
    "nothing to be seen": "\u200b\u2060\n\u3164",
    "too long": "x" * (LONGEST + 1),
    "too many lines": "x\n" * (MAX_LINES + 1) + "x",
    "NUL": "a\0b",
    "an escape sequence": "a\x1b[31mb",
    "a bell": "a\x07",
    "C1": "a\x9bb",
    "an override of direction": "a\u202egnp.exe",
    "an isolate": "a\u2066b",
    "half a character": "a\ud800",
    "no character": "a\uffff",
    "a tower of marks": "Z" + "\u0300\u0301" * MAX_MARKS,
    "a tower of circles": "Z" + "\u20dd" * (MAX_MARKS + 1),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_text_is_kept_except_for_line_ends_and_surrounding_blanks(name: str) -> None:
    given, taken = GOOD[name]

    assert require_comment_text(given) == taken


@pytest.mark.parametrize("name", BAD)
def test_a_text_that_would_break_the_page_around_it_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        require_comment_text(BAD[name])

    assert refused.value.path == ["text"]


@ON_EACH
async def test_a_refused_text_changes_nothing(gateway: GatewayClient, discussion: str) -> None:
    comment = await post(gateway, discussion, "As it was.")

    posted = await gateway.result("postComment", post_input(discussion, "a\x07"))
    edited = await gateway.result("editComment", {"id": comment["id"], "text": "x" * (LONGEST + 1)})

    assert [(one["__typename"], one["path"]) for one in (posted, edited)] == [("InvalidInput", ["text"])] * 2
    assert [row["text"] for row in await everything(gateway, discussion)] == ["As it was."]


@ON_EACH
async def test_rendered_comments_contain_nothing_harmful(gateway: GatewayClient, discussion: str) -> None:
    posted = [await post(gateway, discussion, f"{text}\n\n*a* {text}") for text in ATTACKS]

    assert [harm_in(one["html"]) for one in posted] == [[]] * len(ATTACKS)


HIDDEN = {
    "an override of direction": "&#x202e;abc",
    "one in decimal digits": "&#8238;abc",
    "one in a title": "[a](http://a.b 'x&#x202e;y')",
    "one in the title of a reference": "[a]\n\n[a]: http://a.b 'x&#x202e;y'",
    "one in the name of a picture": "![x&#x202e;y](http://a.b/c.png)",
    "an isolate": "a&#x2066;b",
    "a tower of marks": "a" + "&#x301;" * 1_400,
    "a tower within a word": "a" + "&#x301;" * 4 + "\u0301" * 4,
    "a tower with links between": "a" + "\u0301\u0301\u0301[](u 'x>y')" * 5,
    "a tower of emphasis": "a" + "**\u0301\u0301\u0301**" * 5,
}
SHOWN = {
    "references to good characters": ("&copy; &#169; &amp;lt; e&#x301;", "© © &amp;lt; e\u0301"),
    "one that is code": ("`&#x202e;`", "<code>&amp;#x202e;</code>"),
    "marks on letters that are marked up": ("**e\u0301**e\u0301", "<strong>e\u0301</strong>e\u0301"),
}


@pytest.mark.parametrize("name", HIDDEN)
async def test_references_and_markup_cannot_produce_a_forbidden_text(gateway: GatewayClient, name: str) -> None:
    posted = await post(gateway, await open_on_product(gateway, EMBEDDED), HIDDEN[name])

    # The text is shown as it was written.
    assert posted["html"] == f"<pre>{html.escape(HIDDEN[name])}</pre>"


@pytest.mark.parametrize("name", SHOWN)
async def test_harmless_references_and_marks_are_rendered(name: str) -> None:
    text, wanted = SHOWN[name]

    assert comment_html(text) == f"<p>{wanted}</p>\n"


async def test_a_page_of_costly_texts_is_rendered_in_little_time(gateway: GatewayClient) -> None:
    discussion = await open_on_product(gateway, EMBEDDED)
    for bomb in ("![" * (LONGEST // 2), "*a_ " * (LONGEST // 4), "> " * (LONGEST // 2), "`a" * (LONGEST // 2)):
        for number in range(5):
            await post(gateway, discussion, f"{number} {bomb}"[:LONGEST])
    query = """query ($id: ID!, $first: Int!, $after: String) { node(id: $id) { ... on Discussion {
      comments(first: $first, after: $after) { nodes { html } pageInfo { endCursor } } } } }"""
    began = time.process_time()

    found = await gateway.ask(query, {"id": discussion, "first": 20})

    assert time.process_time() - began < 5
    # How many texts one operation renders depends on the machine.
    assert set(found.codes) <= {"OPERATION_TOO_COMPLEX"}
    after = None
    for _ in range(20):
        page = (await gateway.data(query, {"id": discussion, "first": 1, "after": after}))["node"]["comments"]
        assert page["nodes"][0]["html"].count("<blockquote>") <= 20
        after = page["pageInfo"]["endCursor"]


async def test_an_embedded_discussion_is_full_before_its_document_is_too_large(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comment_embedded, "MAX_POSTED", 50_000)
    monkeypatch.setattr(comment_embedded, "MAX_EDITED", 51_000)
    discussion = await open_on_product(gateway, EMBEDDED)
    answers: list[Any] = []
    parent = None
    while not answers or answers[-1]["__typename"] == "CommentPayload":
        given = post_input(discussion, "ß" * 2_000, parent, idempotencyKey=f"{len(answers)}")
        answers.append(await gateway.result("postComment", given))
        parent = answers[0]["comment"]["slug"]
        document = await gateway.stored("comment_discussions")
        # The server limits the size of this document.
        assert len(bson.encode(document)) < document["size"] + 500

    assert answers[-1] == {"__typename": "DiscussionFull", "message": "The discussion is full."}
    assert len(answers) - 1 == await count(gateway, discussion) > 5
    # Short texts still fit, and shortening or deleting comments frees space.
    assert (await post(gateway, discussion, "Short."))["text"] == "Short."
    edit = {"id": answers[1]["comment"]["id"], "text": "ß" * 4_000}
    longer = await gateway.result("editComment", edit)
    assert (longer["__typename"], longer["path"]) == ("InvalidInput", ["text"])
    await gateway.result("editComment", {**edit, "text": "Short, too."})
    await gateway.result("deleteComment", {"id": answers[2]["comment"]["id"]})
    assert (await gateway.result("postComment", post_input(discussion, "ß" * 2_000)))["__typename"] == "CommentPayload"
    assert len((await page(gateway, discussion, first=100))["nodes"]) == await count(gateway, discussion)
    await assert_invariants(gateway)


async def test_an_embedded_discussion_takes_one_mebibyte_of_posts(gateway: GatewayClient) -> None:
    discussion = await open_on_product(gateway, EMBEDDED)
    for number in range(80):
        await post(gateway, discussion, f"{number}".ljust(LONGEST, "x"))
    document = await gateway.stored("comment_discussions")
    rest = 1024 * 1024 - document["size"]
    await gateway.db["comment_discussions"].update_one({}, {"$inc": {"size": rest - LONGEST // 2}})

    refused = await gateway.result("postComment", post_input(discussion, "x" * LONGEST))

    assert rest > LONGEST
    assert refused == {"__typename": "DiscussionFull", "message": "The discussion is full."}
    assert (await post(gateway, discussion, "Short."))["text"] == "Short."


async def test_a_larger_embedded_discussion_stays_readable_and_can_get_shorter(gateway: GatewayClient) -> None:
    discussion = await open_on_product(gateway, EMBEDDED)
    posted = [await post(gateway, discussion, f"Comment {number}. ".ljust(500, "x")) for number in range(3)]
    await gateway.db["comment_discussions"].update_one({}, {"$set": {"size": 14 * 1024 * 1024}})

    full = await gateway.result("postComment", post_input(discussion, "Late."))
    longer = await gateway.result("editComment", {"id": posted[0]["id"], "text": "x" * 600})
    shorter = await gateway.result("editComment", {"id": posted[0]["id"], "text": "Short."})
    deleted = await gateway.result("deleteComment", {"id": posted[1]["id"]})

    assert (full["__typename"], longer["__typename"]) == ("DiscussionFull", "InvalidInput")
    assert (shorter["__typename"], deleted["__typename"]) == ("CommentPayload", "CommentPayload")
    assert [one["text"] for one in await everything(gateway, discussion)] == ["Short.", posted[2]["text"]]


async def test_edits_may_use_twice_the_bytes_of_posts() -> None:
    assert (comment_embedded.MAX_POSTED, comment_embedded.MAX_EDITED) == (1024 * 1024, 2 * 1024 * 1024)
