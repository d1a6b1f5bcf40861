"""Discussions compared with a model: posts, edits, deletions and reads in any order, the same on each storage."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.comments.checks import find_wrong_discussions
from portico.resolvers.comments.comments import (
    CHRONOLOGICAL,
    NEWEST,
    THREADED,
    CommentListing,
    listing_of,
    replies_of,
    thread_of,
)
from portico.resolvers.comments.discussions import open_discussion
from portico.resolvers.comments.edits import delete_comment, edit_comment, post_comment
from portico.resolvers.comments.storages import count_comments, find_comment_pages, find_comments
from portico.resolvers.documents import Author, Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.writes.marks import random_operation_id
from tests.comments.support.discussions import STORAGES, use_small_pages
from tests.support.harness import IS_SOAK
from tests.support.machines import examples

_numbers = itertools.count(1)
EPOCH = datetime(2012, 2, 8)  # noqa: DTZ001 - all times here are in UTC


@dataclass
class Row:
    """A comment of the model, with the slug that the gateway gave it."""

    slug: str
    text: str
    posted: datetime
    parent: Row | None
    document: Document
    deleted: bool = False
    children: list[Row] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1


@dataclass
class Model:
    """The expected discussion: a tree in memory."""

    roots: list[Row] = field(default_factory=list)

    def post(self, document: Document, parent: Row | None) -> None:
        row = Row(document["slug"], document["text"], document["posted"], parent, document)
        siblings = self.roots if parent is None else parent.children
        siblings.append(row)
        siblings.sort(key=lambda one: (one.posted, one.slug))

    def delete(self, row: Row) -> None:
        row.deleted, row.text = True, ""
        gone: Row | None = row
        while gone is not None and gone.deleted and not gone.children:
            (self.roots if gone.parent is None else gone.parent.children).remove(gone)
            gone = gone.parent

    def below(self, row: Row | None) -> Iterator[Row]:
        for child in self.roots if row is None else row.children:
            yield child
            yield from self.below(child)


# The next step: an action, two numbers that choose among the comments that exist by then, and the milliseconds by which
# the clock moves forward or back.
Step = tuple[str, int, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["post", "post", "post", "reply", "reply", "reply", "reply", "edit", "delete", "delete", "page"]
        ),
        st.integers(0, 2**16),
        st.integers(1, 5),
        st.integers(-3, 3),
    ),
    min_size=12,
    max_size=60 if IS_SOAK else 35,
)


class Machine:
    """One discussion and its model."""

    def __init__(self, db: Database, discussion: Document) -> None:
        self.db = db
        self.discussion = discussion
        self.model = Model()
        self.now = EPOCH
        self.author: Author = {"id": "poster", "name": "Poster"}

    async def run(self, steps: list[Step]) -> None:
        for number, (action, choice, size, later) in enumerate(steps):
            self.now = max(EPOCH, self.now + timedelta(milliseconds=later))
            rows = list(self.model.below(None))
            row = rows[choice % len(rows)] if rows else None
            if action == "page":
                await self.check(size)
            elif action in {"post", "reply"}:
                await self.post(f"Text {number}.", row if action == "reply" else None)
            elif row is not None:
                await (self.edit(row, f"Edited {number}.") if action == "edit" else self.delete(row))
        await self.check(3)

    async def post(self, text: str, parent: Row | None) -> None:
        posting = post_comment(
            self.db,
            discussion=self.discussion,
            parent_slug=None if parent is None else parent.slug,
            author=self.author,
            text=text,
            now=self.now,
            operation_id=random_operation_id(),
        )
        if parent is not None and parent.deleted:
            with pytest.raises(NotFound):
                await posting
            return
        self.model.post(await posting, parent)

    async def edit(self, row: Row, text: str) -> None:
        operation_id = random_operation_id()
        editing = edit_comment(self.db, comment=row.document, text=text, now=self.now, operation_id=operation_id)
        if row.deleted:
            with pytest.raises(NotFound):
                await editing
            return
        row.text = (await editing)["text"]

    async def delete(self, row: Row) -> None:
        ref = row.document["ref"]
        comment = (await find_comments(self.db, [ref]))[ref]
        operation_id = random_operation_id()
        deleting = delete_comment(self.db, comment=comment, now=self.now, operation_id=operation_id)
        if row.deleted:
            with pytest.raises(NotFound):
                await deleting
            return
        await deleting
        self.model.delete(row)

    async def check(self, size: int) -> None:
        """Assert that every list matches the model, in pages of this size."""
        storage, key = self.discussion["storage"], self.discussion["_id"]
        rows = list(self.model.below(None))
        assert (await count_comments(self.db, {key: storage}))[key] == len(rows)
        for depth in (None, 0, 1):
            shallow = [row for row in rows if depth is None or row.depth <= depth]
            by_time = sorted(shallow, key=lambda row: (row.posted, row.slug))
            for order, wanted in ((THREADED, shallow), (CHRONOLOGICAL, by_time), (NEWEST, by_time[::-1])):
                await self.check_list(listing_of(storage, key, order=order, max_depth=depth), size, wanted)
        for row in rows[:6]:
            ref = row.document["ref"]
            await self.check_list(replies_of(ref), size, row.children)
            await self.check_list(thread_of(ref, row.document["key"]), size, self.model.below(row))
        await self.check_batch(rows[:4])

    async def check_list(self, listing: CommentListing, size: int, wanted: Iterable[Row]) -> None:
        """Assert that the list has these rows, forwards and backwards."""
        rows = shown(wanted)
        assert await self.listed(listing, size) == rows
        assert await self.listed(listing.reversed(), size) == rows[::-1]

    async def check_batch(self, rows: list[Row]) -> None:
        """Assert that a batch of lists of replies returns the same as single lists."""
        if rows:
            listings = [replies_of(row.document["ref"]) for row in rows]
            pages = await find_comment_pages(self.db, listings, first=2, after=None, projection={"slug": 1})
            for row, page in zip(rows, pages, strict=True):
                assert [found["slug"] for found in page.documents] == [child.slug for child in row.children[:2]]
                assert page.has_next is (len(row.children) > 2)

    async def listed(self, listing: CommentListing, size: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        after = None
        while True:
            (page,) = await find_comment_pages(self.db, [listing], first=size, after=after, projection=None)
            assert await page.has_previous() is (after is not None)
            found += [
                (row["slug"], row["text"], row["deleted"], row["replies"], row["depth"], row["posted"])
                for row in page.documents
            ]
            if not page.has_next:
                return found
            assert len(page.documents) == size
            after = listing.sort.key_of(page.documents[-1])


def shown(rows: Any) -> list[tuple[Any, ...]]:
    return [(row.slug, row.text, row.deleted, len(row.children), row.depth, row.posted) for row in rows]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch, 4)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("storage", STORAGES)
@examples(4, 400)
@given(steps=STEPS)
async def test_discussions_match_the_model_after_any_steps(db: Database, storage: str, steps: list[Step]) -> None:
    key = f"p{next(_numbers)}"
    discussion = await open_discussion(db, kind="Product", key=key, storage=storage, subject="poster", now=EPOCH)

    await Machine(db, dict(discussion)).run(steps)

    assert [wrong.text async for wrong in find_wrong_discussions(db)] == []
