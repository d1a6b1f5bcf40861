"""Edits and deletions that overtake each other at any command. The kit has the crashes and pauses of each call."""

from __future__ import annotations

import contextlib

import pytest

from portico.resolvers.content import edits as content_edits
from portico.resolvers.content.edits import Edit
from portico.resolvers.content.refusals import EditConflict
from portico.resolvers.documents import Document
from portico.resolvers.errors import NotFound
from portico.schema.kinds import Kind
from portico.testing.kits import Given
from tests.content.support.site import page_input
from tests.content.support.stages import Site, changed
from tests.support.harness import GatewayClient, SettableClock, some_stops, stops
from tests.support.ids import key_in
from tests.support.interruptions import database_of, interrupted


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Site:
    return Site(gateway, clock)


async def test_an_edit_first_keeps_a_text_whose_revision_a_crash_prevented(scene: Site) -> None:
    """The next edit does not wait for a job."""
    for stop in some_stops(2):
        given = await scene.set("another text")
        if not await scene.crash("editText", given, stop):
            break
        page = await scene.gateway.db["cms.nodes"].find_one({"slug": "page"})
        assert page is not None
        accepted = page["detail"]["text"]

        edit = Edit(page["_id"], page["nonce"], {"id": "b", "name": "B"}, scene.clock.now(), "r-next")
        await content_edits.edit_text(scene.gateway.db, edit, text="Four.")

        _, texts = await scene.state()
        expected = ["One.", "Two.", "Three.", "Four."] if accepted == "Three." else ["One.", "Two.", "Four."]
        assert texts["docs/page"] == expected, stop
    assert stop > 4


async def test_an_edit_that_pauses_while_its_page_is_deleted_leaves_no_revision(scene: Site) -> None:
    db = scene.gateway.db
    for skip in some_stops(2):
        given = await scene.set("another text")
        ran: list[str] = []

        async def delete(ran: list[str] = ran, given: Given = given) -> None:
            with database_of(scene.gateway, db):
                page = await db["cms.nodes"].find_one({"_id": key_in("ContentNode", given["id"])})
                assert page is not None
                ran.append(await scene.typename_of("deleteContent", {"id": given["id"], "nonce": page["nonce"]}))

        with database_of(scene.gateway, interrupted(db, None, None, delete, skip=skip)):
            outcome = await scene.typename_of("editText", given)
        if not ran:
            break
        assert ran == ["DeletedPayload"], skip
        assert outcome in {"ContentPayload", "NotFound"}, skip
        assert await scene.state() == changed({}, {}, "docs/page"), skip
        await scene.assert_settled()
    assert skip > 6


async def test_an_edit_of_an_unrevised_text_that_pauses_while_its_page_is_deleted_leaves_no_revision(
    scene: Site,
) -> None:
    db = scene.gateway.db
    for skip in some_stops(2):
        given = await scene.set("another text")
        assert await scene.crash("editText", given, 2)
        page = await db["cms.nodes"].find_one({"slug": "page"})
        assert page is not None
        assert "unrevised" in page
        ran: list[str] = []

        async def delete(ran: list[str] = ran, page: Document = page) -> None:
            own = {"id": Kind.encode_id("ContentNode", page["_id"]), "nonce": page["nonce"]}
            with database_of(scene.gateway, db):
                ran.append(await scene.typename_of("deleteContent", own))

        edit = Edit(page["_id"], page["nonce"], {"id": "b", "name": "B"}, scene.clock.now(), "r-next")
        with contextlib.suppress(NotFound, EditConflict):
            await content_edits.edit_text(interrupted(db, None, None, delete, skip=skip), edit, text="Four.")
        if not ran:
            break
        if ran == ["DeletedPayload"]:
            assert await scene.state() == changed({}, {}, "docs/page"), skip
        await scene.run_jobs()
        await scene.assert_settled()
    assert skip > 3


async def test_a_creation_that_pauses_while_its_section_is_deleted_is_refused_or_prevents_the_deletion(
    scene: Site,
) -> None:
    db = scene.gateway.db
    outcome = set()
    for skip in stops():
        await scene.set("deleting a section")
        empty = await db["cms.nodes"].find_one({"slug": "empty"})
        assert empty is not None
        section = {"id": Kind.encode_id("ContentNode", empty["_id"]), "nonce": empty["nonce"]}
        ran: list[str] = []

        async def delete(ran: list[str] = ran, section: Given = section) -> None:
            with database_of(scene.gateway, db):
                ran.append(await scene.typename_of("deleteContent", section))

        with database_of(scene.gateway, interrupted(db, None, None, delete, skip=skip)):
            created = await scene.typename_of("createPage", page_input(parentId=section["id"]))
        if not ran:
            break
        outcome.add((created, *ran))
        # A creation that is undone leaves what the node may own to the jobs.
        await scene.run_jobs()
        await scene.assert_settled()
    assert outcome == {("NotFound", "DeletedPayload"), ("ContentPayload", "SectionNotEmpty")}
