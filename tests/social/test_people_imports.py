"""Imports of members and their circles, in the formats of Portico and of ego networks."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.domains.social import people
from portico.gateway.imports.runs import BadRecord, Import
from portico.gateway.mongo.faults import Crash
from portico.resolvers.documents import Database
from portico.resolvers.social import members, relation_jobs, relations
from tests.social.support.social import assert_graph_is_right, block, circle, join
from tests.support.crashing_databases import CrashingDatabases
from tests.support.harness import SettableClock, some_stops
from tests.support.real_data import rows

ADA = {
    "subject": "ada",
    "name": "Ada",
    "profile": {"about": "A", "website": "https://example.org", "birthYear": 1915, "interests": ["poetry"]},
}
BO = {"subject": "bo", "name": "Bo"}
CIRCLE = {"of": "ada", "circle": "a.b", "members": ["bo"]}


async def run(db: Any, tmp_path: Path, *records: Any, prefix: str = "") -> tuple[Counter[str], list[BadRecord]]:
    """Imports the records from a file. Returns how many had each outcome, and the invalid ones."""
    file = tmp_path / "people.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps(record) for record in records))
    bad: list[BadRecord] = []
    work = Import(db, people.people(prefix), SystemClock(), bad.append, lambda _: None)
    return (await work.run([file])).counts, bad


async def test_members_and_circles_are_imported_once(db: Database, tmp_path: Path) -> None:
    first, bad = await run(db, tmp_path, ADA, BO, CIRCLE)
    second, _ = await run(db, tmp_path, ADA, BO, CIRCLE)

    assert (first, second, bad) == ({"created": 3}, {"unchanged": 3}, [])
    ada = (await members.find_by_ids(db, ["ada"]))["ada"]
    assert (ada["name"], ada["circles"]) == ("Ada", ["a.b"])
    assert ada["profile"] == {
        "about": "A",
        "website": "https://example.org",
        "birth_year": 1915,
        "interests": ["poetry"],
    }
    bo = (await relations.find(db, "bo", ["ada"]))["ada"]
    assert bo["in_circles"] == ["a.b"]
    await assert_graph_is_right(db)


async def test_a_repeated_import_updates_members_and_keeps_what_is_in_their_circles(
    db: Database, tmp_path: Path
) -> None:
    await run(db, tmp_path, ADA, BO, {"subject": "cy", "name": "Cy"}, CIRCLE)
    await circle(db, "ada", "cy", name="a.b")
    await block(db, "bo", "ada")

    counts, _ = await run(db, tmp_path, {"subject": "ada", "name": "Ada L."}, {**CIRCLE, "circle": "$x"})

    assert counts == {"changed": 1, "created": 1}
    ada = (await members.find_by_ids(db, ["ada"]))["ada"]
    assert (ada["name"], ada["profile"], "renamed" in ada) == ("Ada L.", {}, True)
    known = await relations.find(db, "ada", ["bo", "cy"])
    assert {to: one["circles"] for to, one in known.items()} == {"bo": ["a.b", "$x"], "cy": ["a.b"]}
    assert known["bo"]["blocked"] is True
    await assert_graph_is_right(db)


async def test_an_ego_network_becomes_members_who_follow_each_other(db: Database, tmp_path: Path) -> None:
    records: list[Any] = [
        {"id": 0, "is_ego": True, "networks": [], "degree": 2, "profile": {"gender": [78], "education;type": [53, 54]}},
        *({"id": number, "is_ego": False, "networks": [0], "degree": 1, "profile": {}} for number in (1, 2)),
        {"ego": 0, "circle": "circle0", "size": 2, "members": [1, 2]},
        {"a": 0, "b": 1},
        {"a": 1, "b": 2},
    ]

    counts, bad = await run(db, tmp_path, *records, prefix="snap-")

    assert (counts, bad) == ({"created": 6}, [])
    ego = (await members.find_by_ids(db, ["snap-0"]))["snap-0"]
    assert (ego["name"], ego["profile"]["interests"]) == (
        "Person 0",
        ["gender 78", "education type 53", "education type 54"],
    )
    known = await relations.find(db, "snap-1", ["snap-0", "snap-2"])
    assert {to: (one["circles"], one["in_circles"]) for to, one in known.items()} == {
        "snap-0": (["friends"], ["circle0", "friends"]),
        "snap-2": (["friends"], ["friends"]),
    }
    await assert_graph_is_right(db)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"subject": "cy"}, "name: is missing"),
        ({"subject": "cy", "name": ""}, "name"),
        ({"subject": "cy", "name": "Cy", "profile": {"website": "javascript:alert(1)"}}, "profile.website"),
        ({"subject": "cy", "name": "Cy", "profile": {"age": 7}}, "profile.age: unknown field"),
        ({"of": "ada", "circle": "", "members": []}, "circle"),
        ({"of": "ada", "circle": "c", "members": ["ada"]}, "members.0: A member cannot be in a circle of their own."),
        ({"of": "ada", "circle": "c", "members": ["bo", "cy"]}, "members.1: 'cy' is no member. Import people first."),
        ({"of": "cy", "circle": "c", "members": []}, "of: 'cy' is no member. Import people first."),
        ({"a": 1, "b": [2]}, "b: must be a number or a string"),
        ({"ego": 0, "circle": "c", "members": 7}, "members: must be a list"),
        ([], "must be an object"),
    ],
)
async def test_an_invalid_record_stops_no_others(db: Database, tmp_path: Path, record: Any, reason: str) -> None:
    counts, (bad,) = await run(db, tmp_path, ADA, BO, record, CIRCLE)

    assert counts == {"created": 3, "failed": 1}
    assert (bad.line, bad.reason.startswith(reason)) == (3, True), bad.reason
    await assert_graph_is_right(db)


async def test_an_import_that_crashes_anywhere_is_finished_by_a_second_one_or_by_jobs(
    db: Database, clock: SettableClock, tmp_path: Path
) -> None:
    records = [ADA, BO, {"subject": "cy", "name": "Cy"}, {**CIRCLE, "members": ["bo", "cy"]}, {"a": "bo", "b": "cy"}]
    await join(db, "dee")
    await db["social.members"].update_one({"_id": "dee"}, {"$set": {"is_merged": True}})
    records.append({"of": "ada", "circle": "merged", "members": ["dee"]})
    for crashing_db in CrashingDatabases(db, some_stops(2)):
        for name in ("social.members", "social.relations"):
            await db[name].delete_many({"_id": {"$ne": "dee"}})
        with contextlib.suppress(Crash):
            await run(crashing_db, tmp_path, *records)
        clock.advance(seconds=31)
        await relation_jobs.finish_relations(db, now=clock.now())
        await assert_graph_is_right(db)

        await run(db, tmp_path, *records)

        assert await db["social.relations"].count_documents({"circles.0": {"$exists": True}}) == 5
        assert await db["social.relations"].count_documents({"is_merged": True}) == 1
        await assert_graph_is_right(db)


async def test_a_real_ego_network_is_imported_with_its_circles(db: Database, tmp_path: Path) -> None:
    """The network of person 0: 10 of its circles, and its members."""
    known = [one for one in rows("facebook_people") if one["id"] == 0 or 0 in one["networks"]]
    circles = [one for one in rows("facebook_circles") if one["ego"] == 0][:10]

    counts, bad = await run(db, tmp_path, *known, *circles)

    assert (counts, bad) == ({"created": len(known) + 10}, [])
    for one in circles:
        stored = await db["social.relations"].count_documents({"of": "0", "circles": one["circle"]})
        assert stored == one["size"]
    await assert_graph_is_right(db)
