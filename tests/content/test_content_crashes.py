"""Writes to the site that crash or pause anywhere: no text is lost or invented, and a retry succeeds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from portico.gateway.domains import content
from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.content import edits as content_edits
from portico.resolvers.content import jobs as content_jobs
from portico.resolvers.content.edits import Edit
from portico.resolvers.documents import Document
from portico.resolvers.errors import EditConflict, NotFound
from portico.schema.nodes import encode_id
from tests.content.support.site import create_entry, create_page, create_section, page_input
from tests.support.domains import DOMAINS, INVARIANTS
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, half_of_stops, stops, stops_of
from tests.support.ids import key_in
from tests.support.interruptions import database_of, interrupted, stopping
from tests.support.scenes import Given, Stage

# The title, tags and text of each node by its path without the leading `/`, and the texts of its revisions.
Nodes = dict[str, tuple[str, list[str], str | None]]
Texts = dict[str, list[str]]


class Scene(Stage):
    """A folder with a page that was edited once, a blog with an entry, and an empty section."""

    collections = ("cms.nodes", "cms.revisions", "operations", "intents")

    async def set(self, name: str) -> tuple[str, Given]:
        """Restore the site, and return the mutation and its input."""
        await self.restore()
        mutation, given = CALLS[name](self._nodes)
        return mutation, {**given, "idempotencyKey": "the key"}

    async def build(self) -> None:
        folder = await create_section(self.gateway, slug="docs", title="Docs")
        blog = await create_section(self.gateway, "BLOG", slug="blog", title="Blog")
        empty = await create_section(self.gateway, slug="empty", title="Empty")
        page = await create_page(self.gateway, slug="page", title="Page", text="One.", parentId=folder["id"])
        await create_entry(self.gateway, blog, slug="entry", title="Entry", text="Entry.")
        edited = await self.gateway.result("editText", {"id": page["id"], "nonce": page["nonce"], "text": "Two."})
        first = await self.gateway.db["cms.revisions"].find_one({"text": "One."})
        assert first is not None
        self._nodes = {
            "folder": folder,
            "blog": blog,
            "empty": empty,
            "page": edited["content"],
            "revision": {"id": encode_id("Revision", first["_id"])},
        }

    async def jobs(self, seconds: int = 31) -> None:
        self.clock.advance(seconds=seconds)
        await content_jobs.finish_changes(self.gateway.db, DOMAINS.attachments, now=self.clock.now())

    async def state(self) -> tuple[Nodes, Texts]:
        found = await self.gateway.db["cms.nodes"].find({}).to_list()
        slugs = {node["_id"]: node["slug"] for node in found}
        paths = {node["_id"]: "/".join(slugs[key] for key in (*node["ancestors"], node["_id"])) for node in found}
        nodes = {paths[node["_id"]]: (node["title"], node["tags"], node["detail"].get("text")) for node in found}
        texts: Texts = {}
        async for revision in self.gateway.db["cms.revisions"].find({}).sort([("node", 1), ("number", 1)]):
            texts.setdefault(paths.get(revision["node"], "?"), []).append(revision["text"])
        return nodes, texts

    async def assert_settled(self) -> None:
        for mark in ("pending", "unrevised", "deleting"):
            assert await self.gateway.db["cms.nodes"].find_one({mark: {"$exists": True}}) is None, mark
        assert await self.gateway.db["intents"].find_one({}) is None
        for invariant in INVARIANTS:
            if invariant.check in {content._content, content._revisions}:
                assert [problem async for problem in invariant.check(self.gateway.db)] == []


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


def own(node: Given) -> Given:
    return {"id": node["id"], "nonce": node["nonce"]}


NEW = {"slug": "new", "title": "New", "text": "New."}
Calls = dict[str, Callable[[dict[str, Given]], tuple[str, Given]]]
CALLS: Calls = {
    "a page at the root": lambda _: ("createPage", NEW),
    "a page in a section": lambda nodes: ("createPage", {**NEW, "parentId": nodes["folder"]["id"]}),
    "a section": lambda nodes: (
        "createSection",
        {"slug": "new", "title": "New", "kind": "BLOG", "parentId": nodes["folder"]["id"]},
    ),
    "a draft": lambda nodes: ("createBlogEntry", {**NEW, "blogId": nodes["blog"]["id"]}),
    "a slug that is taken": lambda nodes: (
        "createPage",
        {**NEW, "slug": "page", "parentId": nodes["folder"]["id"]},
    ),
    "another text": lambda nodes: ("editText", {**own(nodes["page"]), "text": "Three."}),
    "another slug": lambda nodes: ("editMetadata", {**own(nodes["page"]), "slug": "other"}),
    "another title of a section": lambda nodes: ("editMetadata", {**own(nodes["folder"]), "title": "Other"}),
    "a restored text": lambda nodes: (
        "restoreRevision",
        {**own(nodes["page"]), "revisionId": nodes["revision"]["id"]},
    ),
    "more tags": lambda nodes: ("addTags", {"id": nodes["page"]["id"], "tags": ["a", "b"]}),
    "fewer tags": lambda nodes: ("removeTags", {"id": nodes["page"]["id"], "tags": ["a"]}),
    "deleting a page": lambda nodes: ("deleteContent", own(nodes["page"])),
    "deleting a section": lambda nodes: ("deleteContent", own(nodes["empty"])),
    "deleting a section that is not empty": lambda nodes: ("deleteContent", own(nodes["blog"])),
}
BEFORE_NODES: Nodes = {
    "docs": ("Docs", [], None),
    "blog": ("Blog", [], None),
    "empty": ("Empty", [], None),
    "docs/page": ("Page", [], "Two."),
    "blog/entry": ("Entry", [], "Entry."),
}
BEFORE_TEXTS: Texts = {"docs/page": ["One.", "Two."], "blog/entry": ["Entry."]}
BEFORE = BEFORE_NODES, BEFORE_TEXTS


def changed(nodes: Nodes, texts: Texts, *without: str) -> tuple[Nodes, Texts]:
    """Return the initial site with these nodes and texts replaced."""
    return (
        {path: node for path, node in {**BEFORE_NODES, **nodes}.items() if path not in without},
        {path: found for path, found in {**BEFORE_TEXTS, **texts}.items() if path not in without},
    )


AFTER: dict[str, tuple[str, tuple[Nodes, Texts]]] = {
    "a page at the root": ("ContentPayload", changed({"new": ("New", [], "New.")}, {"new": ["New."]})),
    "a page in a section": ("ContentPayload", changed({"docs/new": ("New", [], "New.")}, {"docs/new": ["New."]})),
    "a section": ("ContentPayload", changed({"docs/new": ("New", [], None)}, {})),
    "a draft": ("ContentPayload", changed({"blog/new": ("New", [], "New.")}, {"blog/new": ["New."]})),
    "a slug that is taken": ("SlugTaken", BEFORE),
    "another text": (
        "ContentPayload",
        changed({"docs/page": ("Page", [], "Three.")}, {"docs/page": ["One.", "Two.", "Three."]}),
    ),
    "another slug": (
        "ContentPayload",
        changed({"docs/other": ("Page", [], "Two.")}, {"docs/other": ["One.", "Two.", "Two."]}, "docs/page"),
    ),
    "another title of a section": ("ContentPayload", changed({"docs": ("Other", [], None)}, {})),
    "a restored text": (
        "ContentPayload",
        changed({"docs/page": ("Page", [], "One.")}, {"docs/page": ["One.", "Two.", "One."]}),
    ),
    "more tags": ("ContentPayload", changed({"docs/page": ("Page", ["a", "b"], "Two.")}, {})),
    "fewer tags": ("ContentPayload", BEFORE),
    "deleting a page": ("DeletedPayload", changed({}, {}, "docs/page")),
    "deleting a section": ("DeletedPayload", changed({}, {}, "empty")),
    "deleting a section that is not empty": ("SectionNotEmpty", BEFORE),
}


# The calls with different ways to crash. The soak run covers both orders for each call.
DIFFERENT = ("a page in a section", "another text", "deleting a page", "deleting a section")
BOTH_WAYS = [
    (name, is_first) for name in CALLS for is_first in (True, False) if is_first or name in DIFFERENT or IS_SOAK
]


@pytest.mark.parametrize(("name", "jobs_first"), BOTH_WAYS)
async def test_a_write_that_crashes_anywhere_is_finished_or_undone_and_its_retry_succeeds(
    scene: Scene, name: str, *, jobs_first: bool
) -> None:
    kind, after = AFTER[name]
    for stop in stops_of(jobs_first=jobs_first):
        mutation, given = await scene.set(name)
        if not await scene.crash(mutation, given, stop):
            break

        # The crashed call holds the key for 30 seconds.
        if jobs_first:
            await scene.jobs()
            assert await scene.state() in (BEFORE, after), stop
            await scene.assert_settled()
        else:
            scene.clock.advance(seconds=31)
        again = await scene.typename_of(mutation, given)
        once_more = await scene.typename_of(mutation, given)
        await scene.jobs()

        assert (again, once_more) == (kind, kind), stop
        assert await scene.state() == after, stop
        await scene.assert_settled()
    assert stop > 2


@pytest.mark.parametrize(("name", "is_repeated"), BOTH_WAYS)
async def test_a_write_that_pauses_anywhere_while_the_jobs_run_has_one_effect(
    scene: Scene, name: str, *, is_repeated: bool
) -> None:
    kind, after = AFTER[name]
    db = scene.gateway.db
    for skip in half_of_stops(odd=is_repeated):
        mutation, given = await scene.set(name)
        meanwhile: list[str] = []

        async def others(mutation: str = mutation, given: Given = given, outcome: list[str] = meanwhile) -> None:
            with database_of(scene.gateway, db):
                await scene.jobs()
                outcome.append(await scene.typename_of(mutation, given) if is_repeated else kind)
                await scene.jobs()

        with database_of(scene.gateway, interrupted(db, None, None, others, skip=skip)):
            outcome = await scene.typename_of(mutation, given)
        await scene.jobs()

        if not meanwhile:
            break
        assert (meanwhile, outcome) == ([kind], kind), skip
        assert await scene.state() == after, skip
        await scene.assert_settled()
    assert skip > 3


@pytest.mark.parametrize(
    ("name", "stop_call"),
    [
        ("a page in a section", 2),
        ("a page in a section", 3),
        ("another text", 2),
        ("deleting a page", 3),
        ("deleting a section", 2),
    ],
)
async def test_jobs_that_crash_anywhere_finish_in_their_next_run(scene: Scene, name: str, stop_call: int) -> None:
    for stop in stops():
        mutation, given = await scene.set(name)
        assert await scene.crash(mutation, given, stop_call)
        scene.clock.advance(seconds=31)

        faulty, database = FaultyDatabase.around(scene.gateway.db, stop)
        with stopping():
            await content_jobs.finish_changes(database, DOMAINS.attachments, now=scene.clock.now())
        await scene.jobs()

        assert await scene.state() in (BEFORE, AFTER[name][1]), stop
        await scene.assert_settled()
        if not faulty.has_crashed:
            break
    assert stop > 0


async def test_an_edit_first_keeps_a_text_whose_revision_a_crash_prevented(scene: Scene) -> None:
    """The next edit does not wait for a job."""
    for stop in stops():
        mutation, given = await scene.set("another text")
        if not await scene.crash(mutation, given, stop):
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


async def test_an_edit_that_pauses_while_its_page_is_deleted_leaves_no_revision(scene: Scene) -> None:
    db = scene.gateway.db
    for skip in stops():
        mutation, given = await scene.set("another text")
        ran: list[str] = []

        async def delete(ran: list[str] = ran, given: Given = given) -> None:
            with database_of(scene.gateway, db):
                page = await db["cms.nodes"].find_one({"_id": key_in("ContentNode", given["id"])})
                assert page is not None
                ran.append(await scene.typename_of("deleteContent", {"id": given["id"], "nonce": page["nonce"]}))

        with database_of(scene.gateway, interrupted(db, None, None, delete, skip=skip)):
            outcome = await scene.typename_of(mutation, given)
        if not ran:
            break
        assert ran == ["DeletedPayload"], skip
        assert outcome in {"ContentPayload", "NotFound"}, skip
        assert await scene.state() == changed({}, {}, "docs/page"), skip
        await scene.assert_settled()
    assert skip > 6


async def test_an_edit_of_an_unrevised_text_that_pauses_while_its_page_is_deleted_leaves_no_revision(
    scene: Scene,
) -> None:
    db = scene.gateway.db
    for skip in stops():
        mutation, given = await scene.set("another text")
        assert await scene.crash(mutation, given, 2)
        page = await db["cms.nodes"].find_one({"slug": "page"})
        assert page is not None
        assert "unrevised" in page
        ran: list[str] = []

        async def delete(ran: list[str] = ran, page: Document = page) -> None:
            own = {"id": encode_id("ContentNode", page["_id"]), "nonce": page["nonce"]}
            with database_of(scene.gateway, db):
                ran.append(await scene.typename_of("deleteContent", own))

        edit = Edit(page["_id"], page["nonce"], {"id": "b", "name": "B"}, scene.clock.now(), "r-next")
        with contextlib.suppress(NotFound, EditConflict):
            await content_edits.edit_text(interrupted(db, None, None, delete, skip=skip), edit, text="Four.")
        if not ran:
            break
        if ran == ["DeletedPayload"]:
            assert await scene.state() == changed({}, {}, "docs/page"), skip
        await scene.jobs()
        await scene.assert_settled()
    assert skip > 3


async def test_a_creation_that_pauses_while_its_section_is_deleted_is_refused_or_prevents_the_deletion(
    scene: Scene,
) -> None:
    db = scene.gateway.db
    outcome = set()
    for skip in stops():
        await scene.set("deleting a section")
        empty = await db["cms.nodes"].find_one({"slug": "empty"})
        assert empty is not None
        section = {"id": encode_id("ContentNode", empty["_id"]), "nonce": empty["nonce"]}
        ran: list[str] = []

        async def delete(ran: list[str] = ran, section: Given = section) -> None:
            with database_of(scene.gateway, db):
                ran.append(await scene.typename_of("deleteContent", section))

        with database_of(scene.gateway, interrupted(db, None, None, delete, skip=skip)):
            created = await scene.typename_of("createPage", page_input(parentId=section["id"]))
        if not ran:
            break
        outcome.add((created, *ran))
        await scene.assert_settled()
    assert outcome == {("NotFound", "DeletedPayload"), ("ContentPayload", "SectionNotEmpty")}
