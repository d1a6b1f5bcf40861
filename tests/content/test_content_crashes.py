"""Edits and deletions that overtake each other at any command. The kit has the crashes and pauses of each call."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from portico.resolvers.content import edits as content_edits
from portico.resolvers.content.edits import Edit
from portico.resolvers.content.refusals import EditConflict
from portico.resolvers.errors import NotFound
from portico.schema.kinds import Kind
from tests.content.support.site import page_input
from tests.content.support.stages import Site, changed
from tests.support.harness import GatewayClient, SettableClock, some_stops, stops
from tests.support.moments import meanwhile


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Site:
    return Site(gateway, clock)


async def test_an_edit_first_keeps_a_text_whose_revision_a_crash_prevented(scene: Site) -> None:
    """The next edit does not wait for a job."""
    for stop in some_stops(2):
        given = await scene.set("another text")
        if not await scene.crash("editText", given, stop):
            break
        page = await scene.gateway.stored("cms.nodes", {"slug": "page"})
        accepted = page["detail"]["text"]

        edit = Edit(page["_id"], page["nonce"], {"id": "b", "name": "B"}, scene.clock.now(), "r-next")
        await content_edits.edit_text(scene.gateway.db, edit, text="Four.")

        _, texts = await scene.state()
        expected = ["One.", "Two.", "Three.", "Four."] if accepted == "Three." else ["One.", "Two.", "Four."]
        assert texts["docs/page"] == expected, stop
    assert stop > 4


async def delete(scene: Site, slug: str) -> str:
    """Deletes a node as it is now. Returns the type of the result."""
    node = await scene.gateway.stored("cms.nodes", {"slug": slug})
    given = {"id": Kind.encode_id("ContentNode", node["_id"]), "nonce": node["nonce"]}
    return await scene.typename_of("deleteContent", given)


async def test_an_edit_that_pauses_while_its_page_is_deleted_leaves_no_revision(scene: Site) -> None:
    for skip in some_stops(2):
        given = await scene.set("another text")
        with meanwhile(scene.gateway, partial(delete, scene, "page"), skip=skip) as deleted:
            outcome = await scene.typename_of("editText", given)
        if not deleted:
            break
        assert deleted == ["DeletedPayload"], skip
        assert outcome in {"ContentPayload", "NotFound"}, skip
        assert await scene.state() == changed({}, {}, "docs/page"), skip
        await scene.assert_settled()
    assert skip > 6


async def test_an_edit_of_an_unrevised_text_that_pauses_while_its_page_is_deleted_leaves_no_revision(
    scene: Site,
) -> None:
    for skip in some_stops(2):
        assert await scene.crash("editText", await scene.set("another text"), 2)
        page = await scene.gateway.stored("cms.nodes", {"slug": "page"})
        assert "unrevised" in page
        given = {"id": Kind.encode_id("ContentNode", page["_id"]), "nonce": page["nonce"]}
        delete_it = partial(scene.typename_of, "deleteContent", given)
        edit = Edit(page["_id"], page["nonce"], {"id": "b", "name": "B"}, scene.clock.now(), "r-next")
        with meanwhile(scene.gateway, delete_it, skip=skip) as deleted, contextlib.suppress(NotFound, EditConflict):
            await content_edits.edit_text(scene.gateway.db, edit, text="Four.")
        if not deleted:
            break
        if deleted == ["DeletedPayload"]:
            assert await scene.state() == changed({}, {}, "docs/page"), skip
        await scene.run_jobs()
        await scene.assert_settled()
    assert skip > 3


async def test_a_creation_that_pauses_while_its_section_is_deleted_is_refused_or_prevents_the_deletion(
    scene: Site,
) -> None:
    outcome = set()
    for skip in stops():
        section = await scene.set("deleting a section")
        with meanwhile(scene.gateway, partial(delete, scene, "empty"), skip=skip) as deleted:
            created = await scene.typename_of("createPage", page_input(parentId=section["id"]))
        if not deleted:
            break
        outcome.add((created, *deleted))
        # A creation that is undone leaves what the node may own to the jobs.
        await scene.run_jobs()
        await scene.assert_settled()
    assert outcome == {("NotFound", "DeletedPayload"), ("ContentPayload", "SectionNotEmpty")}
