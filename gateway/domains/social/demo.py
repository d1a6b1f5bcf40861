"""The demo's members, with a past of some months: circles, blocks, posts, comments and votes.

The demo's viewer is one of them. Everything is written as members would have written it, at the times in the data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.demo.loading import OPERATION, Demo
from portico.resolvers.content.nodes import find_by_paths
from portico.resolvers.documents import Database
from portico.resolvers.social import (
    fan_out,
    member_edits,
    members,
    post_comments,
    post_edits,
    relation_edits,
    votes,
)
from portico.resolvers.social.posts import PUBLIC
from portico.schema.scalars import parse_instant

from .posting import limits_of

Record = dict[str, Any]

FOLDER = Path(__file__).parent / "data"
MEMBERS = FOLDER / "members.jsonl"
POSTS = FOLDER / "posts.jsonl"
GALLERY = "gallery"
_AT_ONCE = 20
_STORED_NAMES = {"birthYear": "birth_year"}


async def load(demo: Demo) -> None:
    """Loads the members and their posts, once. The last member joins when everything else is stored."""
    people, posts = _read(MEMBERS), _read(POSTS)
    *others, last = people
    if not await members.find_by_ids(demo.db, [last["id"]], {"_id": 1}):
        await _concurrently([partial(_join, demo.db, person) for person in others])
        met = parse_instant(last["joined"])
        await _concurrently([partial(_make_circles, demo.db, person, met) for person in others])
        authors = {person["id"]: {"id": person["id"], "name": person["name"]} for person in people}
        photos = await _photos(demo.db, posts)
        await _concurrently([partial(_write, demo.db, post, authors, photos) for post in posts])
        await _concurrently([partial(_block, demo.db, person, demo.now) for person in others])
        await fan_out.deliver_posts(demo.db, limits_of(demo.resources), now=demo.now)
        await _join(demo.db, last)
    demo.say(f"social network: {len(people):,} members, {len(posts):,} posts")


def _read(file: Path) -> list[Record]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


async def _concurrently(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def run(one: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await one()

    await asyncio.gather(*map(run, work))


async def _join(db: Database, person: Record) -> None:
    profile = {_STORED_NAMES.get(name, name): value for name, value in person.get("profile", {}).items()}
    await member_edits.join(
        db,
        subject=person["id"],
        name=person["name"],
        profile=profile,
        now=parse_instant(person["joined"]),
        operation_id=f"{OPERATION}join.{person['id']}",
    )


async def _make_circles(db: Database, person: Record, now: datetime) -> None:
    for circle, others in person.get("circles", {}).items():
        for other in others:
            await relation_edits.add_to_circle(
                db,
                member=person["id"],
                other=other,
                circle=circle,
                rate=None,
                now=now,
                operation_id=f"{OPERATION}{person['id']}.{other}.{circle}",
            )


async def _block(db: Database, person: Record, now: datetime) -> None:
    for other in person.get("blocks", ()):
        operation_id = f"{OPERATION}{person['id']}.{other}"
        await relation_edits.block(db, member=person["id"], other=other, rate=None, now=now, operation_id=operation_id)


async def _photos(db: Database, posts: Iterable[Record]) -> dict[str, Any]:
    """Returns the ids of the photos in the gallery that posts show, by their slugs."""
    paths = [(GALLERY, post["detail"]["photo"]) for post in posts if "photo" in post["detail"]]
    found = await find_by_paths(db, paths, {"_id": 1})
    return {slug: found[GALLERY, slug]["_id"] for _, slug in paths}


async def _write(db: Database, record: Record, authors: Mapping[str, Record], photos: Mapping[str, Any]) -> None:
    """Writes a post, then its comments and votes."""
    operation = f"{OPERATION}{record['by']}.{record['posted']}"
    detail = dict(record["detail"])
    if "photo" in detail:
        detail["photo"] = photos[detail["photo"]]
    post = await post_edits.create_post(
        db,
        author=authors[record["by"]],
        to=record.get("to"),
        kind=record["kind"],
        detail=detail,
        audience=record.get("audience", PUBLIC),
        circle_names=record.get("circles", ()),
        now=parse_instant(record["posted"]),
        operation_id=operation,
    )
    for number, comment in enumerate(record.get("comments", ())):
        await post_comments.comment_on_post(
            db,
            post_id=post["_id"],
            author=authors[comment["by"]],
            text=comment["text"],
            now=parse_instant(comment["posted"]),
            operation_id=f"{operation}.{number}",
        )
    for voter, option in record.get("votes", {}).items():
        given = {"voter": voter, "option": option, "operation_id": f"{operation}.{voter}"}
        await votes.vote(db, post_id=post["_id"], now=parse_instant(record["posted"]), **given)
