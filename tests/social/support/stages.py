"""Members, their circles and blocks, and the changes of them."""

from __future__ import annotations

from typing import Any, ClassVar

from portico.testing.kits import Given
from portico.testing.stages import Case, Stage
from tests.social.support.social import assert_graph_is_right, block, circle, join, user_id

ME = "tester"
# What each of two members has decided about the other: circles and block. `ME` comes first.
Graph = dict[str, tuple[list[str], bool]]


def on(subject: str, **given: Any) -> Given:
    return {"userId": user_id(subject), "idempotencyKey": "the key", **given}


BEFORE: Graph = {f"{ME} bo": (["$x", "a.b"], False), f"{ME} cy": (["one"], True), f"bo {ME}": (["back"], False)}
CASES = {
    "the first circle": Case(
        "addToCircle", lambda _: on("di", circle="a.b"), "UserPayload", {**BEFORE, f"{ME} di": (["a.b"], False)}
    ),
    "a new circle": Case(
        "addToCircle",
        lambda _: on("bo", circle="new"),
        "UserPayload",
        {**BEFORE, f"{ME} bo": (["$x", "a.b", "new"], False)},
    ),
    "leaving a circle": Case(
        "removeFromCircle", lambda _: on("bo", circle="a.b"), "UserPayload", {**BEFORE, f"{ME} bo": (["$x"], False)}
    ),
    "leaving the last circle": Case(
        "removeFromCircle", lambda _: on("cy", circle="one"), "UserPayload", {**BEFORE, f"{ME} cy": ([], True)}
    ),
    "a block": Case("block", lambda _: on("bo"), "UserPayload", {**BEFORE, f"{ME} bo": (["$x", "a.b"], True)}),
    "a block of a stranger": Case("block", lambda _: on("di"), "UserPayload", {**BEFORE, f"{ME} di": ([], True)}),
    "the end of a block": Case("unblock", lambda _: on("cy"), "UserPayload", {**BEFORE, f"{ME} cy": (["one"], False)}),
}


class Circles(Stage):
    """Three members. The caller follows Bo in two circles, has blocked Cy, and Di is merged."""

    collections = ("social.members", "social.relations", "social.rates", "operations")
    job_names = ("finish-relations",)
    finishes = True
    before: ClassVar[Any] = BEFORE
    cases = CASES

    async def build(self) -> None:
        db = self.gateway.db
        await join(db, ME, "bo", "cy", "di")
        await circle(db, ME, "bo", name="a.b")
        await circle(db, ME, "bo", name="$x")
        await circle(db, ME, "cy", name="one")
        await block(db, ME, "cy")
        await circle(db, "bo", ME, name="back")
        await db["social.members"].update_one({"_id": "di"}, {"$set": {"is_merged": True}})

    async def state(self) -> Graph:
        """Returns what each member has decided, from the documents of both."""
        found = {}
        async for relation in self.gateway.db["social.relations"].find({}):
            of, to = relation["of"], relation["to"]
            if "circles" in relation or "blocks" in relation:
                found[f"{of} {to}"] = (sorted(relation.get("circles", [])), bool(relation.get("blocks")))
        return found

    async def assert_settled(self) -> None:
        await assert_graph_is_right(self.gateway.db)
        async for relation in self.gateway.db["social.relations"].find({"to": "di", "circles.0": {"$exists": True}}):
            assert relation["is_merged"]


class Names(Circles):
    """The same members. The state is the name of the caller, and whether its copies wait for a job."""

    before: ClassVar[Any] = ("Tester", False)
    cases = {  # noqa: RUF012 - no test changes it
        "another name": Case(
            "updateProfile", lambda _: {"name": "Ada", "profile": {"about": "A"}}, "UserPayload", ("Ada", True)
        )
    }

    async def state(self) -> Any:
        found = await self.gateway.db["social.members"].find_one({"_id": ME})
        return None if found is None else (found["name"], "renamed" in found)


class Newcomer(Names):
    """Another member, whom the caller joins."""

    before = None
    cases = {  # noqa: RUF012 - no test changes it
        "joining": Case("join", lambda _: {"name": "Ada"}, "UserPayload", ("Ada", False))
    }

    async def build(self) -> None:
        await join(self.gateway.db, "bo")
