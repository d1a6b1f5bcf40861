"""A site, and the writes of editors."""

from __future__ import annotations

from typing import Any

from portico.resolvers.content import checks
from portico.schema.kinds import Kind
from portico.testing.stages import Case, Stage
from tests.content.support.site import create_entry, create_page, create_section, own
from tests.support.domains import INVARIANTS

# The title, tags and text of each node by its path without the leading `/`, and the texts of its revisions.
Nodes = dict[str, tuple[str, list[str], str | None]]
Texts = dict[str, list[str]]


NEW = {"slug": "new", "title": "New", "text": "New."}
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


CASES = {
    "a page at the root": Case(
        "createPage", lambda _: NEW, "ContentPayload", changed({"new": ("New", [], "New.")}, {"new": ["New."]})
    ),
    "a page in a section": Case(
        "createPage",
        lambda stage: {**NEW, "parentId": stage.nodes["folder"]["id"]},
        "ContentPayload",
        changed({"docs/new": ("New", [], "New.")}, {"docs/new": ["New."]}),
    ),
    "a section": Case(
        "createSection",
        lambda stage: {"slug": "new", "title": "New", "kind": "BLOG", "parentId": stage.nodes["folder"]["id"]},
        "ContentPayload",
        changed({"docs/new": ("New", [], None)}, {}),
    ),
    "a draft": Case(
        "createBlogEntry",
        lambda stage: {**NEW, "blogId": stage.nodes["blog"]["id"]},
        "ContentPayload",
        changed({"blog/new": ("New", [], "New.")}, {"blog/new": ["New."]}),
    ),
    "a slug that is taken": Case(
        "createPage",
        lambda stage: {**NEW, "slug": "page", "parentId": stage.nodes["folder"]["id"]},
        "SlugTaken",
        BEFORE,
    ),
    "another text": Case(
        "editText",
        lambda stage: own(stage.nodes["page"], text="Three."),
        "ContentPayload",
        changed({"docs/page": ("Page", [], "Three.")}, {"docs/page": ["One.", "Two.", "Three."]}),
    ),
    "another slug": Case(
        "editMetadata",
        lambda stage: own(stage.nodes["page"], slug="other"),
        "ContentPayload",
        changed({"docs/other": ("Page", [], "Two.")}, {"docs/other": ["One.", "Two.", "Two."]}, "docs/page"),
    ),
    "another title of a section": Case(
        "editMetadata",
        lambda stage: own(stage.nodes["folder"], title="Other"),
        "ContentPayload",
        changed({"docs": ("Other", [], None)}, {}),
    ),
    "a restored text": Case(
        "restoreRevision",
        lambda stage: own(stage.nodes["page"], revisionId=stage.nodes["revision"]["id"]),
        "ContentPayload",
        changed({"docs/page": ("Page", [], "One.")}, {"docs/page": ["One.", "Two.", "One."]}),
    ),
    "more tags": Case(
        "addTags",
        lambda stage: {"id": stage.nodes["page"]["id"], "tags": ["a", "b"]},
        "ContentPayload",
        changed({"docs/page": ("Page", ["a", "b"], "Two.")}, {}),
    ),
    "fewer tags": Case(
        "removeTags", lambda stage: {"id": stage.nodes["page"]["id"], "tags": ["a"]}, "ContentPayload", BEFORE
    ),
    "deleting a page": Case(
        "deleteContent", lambda stage: own(stage.nodes["page"]), "DeletedPayload", changed({}, {}, "docs/page")
    ),
    "deleting a section": Case(
        "deleteContent", lambda stage: own(stage.nodes["empty"]), "DeletedPayload", changed({}, {}, "empty")
    ),
    "deleting a section that is not empty": Case(
        "deleteContent", lambda stage: own(stage.nodes["blog"]), "SectionNotEmpty", BEFORE
    ),
}


class Site(Stage):
    """A folder with a page that was edited once, a blog with an entry, and an empty section."""

    collections = ("cms.nodes", "cms.revisions", "operations", "intents")
    job_names = ("finish-content",)
    next_run = 31
    before = BEFORE
    cases = CASES
    least = (2, 3)
    nodes: dict[str, Any]

    async def build(self) -> None:
        folder = await create_section(self.gateway, slug="docs", title="Docs")
        blog = await create_section(self.gateway, "BLOG", slug="blog", title="Blog")
        empty = await create_section(self.gateway, slug="empty", title="Empty")
        page = await create_page(self.gateway, slug="page", title="Page", text="One.", parentId=folder["id"])
        await create_entry(self.gateway, blog, slug="entry", title="Entry", text="Entry.")
        edited = await self.gateway.result("editText", own(page, text="Two."))
        first = await self.gateway.stored("cms.revisions", {"text": "One."})
        self.nodes = {
            "folder": folder,
            "blog": blog,
            "empty": empty,
            "page": edited["content"],
            "revision": {"id": Kind.encode_id("Revision", first["_id"])},
        }

    async def state(self) -> tuple[Nodes, Texts]:
        found = await self.gateway.db["cms.nodes"].find({}).to_list()
        slugs = {node["_id"]: node["slug"] for node in found}
        paths = {node["_id"]: "/".join(slugs[key] for key in (*node["ancestors"], node["_id"])) for node in found}
        nodes = {paths[node["_id"]]: (node["title"], node["tags"], node["detail"].get("text")) for node in found}
        texts: Texts = {}
        async for revision in self.gateway.db["cms.revisions"].find({}).sort([("node", 1), ("number", 1)]):
            texts.setdefault(paths.get(revision["node"], "?"), []).append(revision["text"])
        return nodes, texts

    async def assert_sound(self) -> None:
        """Asserts nothing: the revisions of a deleted node are there until the deletion has ended."""

    async def assert_settled(self) -> None:
        for mark in ("pending", "unrevised", "deleting"):
            assert await self.gateway.db["cms.nodes"].find_one({mark: {"$exists": True}}) is None, mark
        assert await self.gateway.db["intents"].find_one({}) is None
        for invariant in INVARIANTS:
            if invariant.check in {checks.find_wrong_nodes, checks.find_wrong_revisions}:
                assert [problem async for problem in invariant.check(self.gateway.db)] == []
