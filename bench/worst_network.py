"""The social network of `bench.worst`: members whom very many others follow, block, and write to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import timedelta

from bench.copies import Stored, Template, insert, numbered, without
from bench.network import BEGIN, by, following, member, post_of, relation
from portico.resolvers.documents import Database, Document
from portico.resolvers.notifications.notifications import NOTIFICATIONS, new_notification
from portico.resolvers.notifying import NotificationSource
from portico.resolvers.social.members import MEMBERS
from portico.resolvers.social.news import NEWS
from portico.resolvers.social.posts import COMMENT_PAGES, PAGE, POSTS
from portico.resolvers.social.relations import RELATIONS

# All members follow `STAR`. `READER` has the star's posts in the news feed. `HERMIT` follows the star, too, and has
# blocked every second one of the others; all of them have commented on a post of the hermit.
STAR, READER, HERMIT = "star", "reader", "hermit"
TALK = numbered("long", 0)
AUDIENCES = ("PUBLIC", "CIRCLES")


async def fill(db: Database, size: int, _rng: random.Random | None = None) -> dict[str, str]:
    """Stores the members, their relations, posts of which strangers see every second one, and a long discussion."""
    names = [_fan(number) for number in range(size)]
    async with asyncio.TaskGroup() as group:
        for documents in (
            (MEMBERS.name, _members(size)),
            (RELATIONS.name, _relations(names)),
            (POSTS.name, _posts(size)),
            (NEWS.name, _entries(size)),
            (COMMENT_PAGES.name, _pages(size)),
            (NOTIFICATIONS.name, _notifications(names)),
        ):
            group.create_task(insert(db, *documents))
    return {}


def _fan(number: int) -> str:
    return f"fan-{number}"


def _members(size: int) -> Iterator[Stored]:
    yield from map(member, (STAR, READER, HERMIT))
    template = without(member(STAR), "_id", "name")
    for number in range(size):
        yield template.copy({"_id": _fan(number), "name": f"Fan {number}"})


def _relations(names: list[str]) -> Iterator[Stored]:
    for name in (READER, HERMIT):
        yield from following(name, STAR)
    forth, back = (without(one, "_id", "of", "to") for one in following(READER, STAR))
    blocking, blocked = (without(one, "_id", "of", "to") for one in _blocks())
    for number, name in enumerate(names):
        yield _between(forth, name, STAR)
        yield _between(back, STAR, name)
        if number % 2:
            yield _between(blocking, HERMIT, name)
            yield _between(blocked, name, HERMIT)


def _notifications(names: list[str]) -> Iterator[Stored]:
    """Yields an unread notification of the hermit by each of the others."""
    for number, name in enumerate(names):
        at = BEGIN + timedelta(seconds=number)
        notice = NotificationSource.Notice(
            reason="FOLLOWED", to=HERMIT, about=("User", name), at=at, by={"id": name, "name": name}
        )
        yield {**new_notification(notice, kept=timedelta(days=36_500))}


def _blocks() -> tuple[Document, Document]:
    return relation(HERMIT, STAR, blocks=True), relation(STAR, HERMIT, blocked=True)


def _between(template: Template, of: str, to: str) -> Stored:
    return template.copy({"_id": {"of": of, "to": to}, "of": of, "to": to})


def _posts(size: int) -> Iterator[Stored]:
    """Yields the posts of the star, those of others on the wall of the hermit, and the hermit's with the discussion."""
    for number in range(2):
        posted = BEGIN + timedelta(minutes=number)
        stored = {**post_of(numbered("post", 0), STAR, posted, "A post. " * 10, _comments()), "version": 0}
        template = without({**stored, "audience": AUDIENCES[number]}, "_id", "posted")
        for nth in range(number, size, 2):
            yield template.copy({"_id": numbered("post", nth), "posted": BEGIN + timedelta(minutes=nth)})
    for number in range(1, size, 20):
        posted = BEGIN + timedelta(minutes=number)
        directed = post_of(numbered("wall", number), _fan(number), posted, "A post. " * 10, [])
        yield {**directed, "to": by(HERMIT), "walls": [_fan(number), HERMIT]}
    talk = post_of(TALK, HERMIT, BEGIN, "A post. " * 10, _comments())
    spilled = size // PAGE * PAGE
    yield {**talk, "spilled": spilled, "comment_count": spilled + len(talk["comments"])}


def _comments() -> list[Document]:
    return [
        {
            "id": numbered("comm", nth),
            "by": by(_fan(nth)),
            "posted": BEGIN + timedelta(seconds=nth),
            "text": "A comment.",
        }
        for nth in range(3)
    ]


def _entries(size: int) -> Iterator[Stored]:
    template = Template({"of": READER, "by": STAR})
    for number in range(size):
        post = numbered("post", number)
        yield template.copy(
            {"_id": {"post": post, "of": READER}, "post": post, "posted": BEGIN + timedelta(minutes=number)}
        )


def _pages(size: int) -> Iterator[Stored]:
    for page in range(0, size // PAGE * PAGE, PAGE):
        comments = [
            {
                "id": numbered("old ", number),
                "by": by(_fan(number)),
                "posted": BEGIN + timedelta(seconds=number),
                "text": "A comment. " * 5,
            }
            for number in range(page, page + PAGE)
        ]
        yield {"_id": {"post": TALK, "page": page}, "post": TALK, "version": 0, "comments": comments}
