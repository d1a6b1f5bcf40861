"""The hierarchy compared with a model: writes, crashes and job runs in any order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.writes.marks import derived_id
from portico.resolvers.writes.operation_records import record_id_of
from portico.schema.kinds import Kind
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants
from tests.support.interruptions import crashing
from tests.support.machines import Machine, examples, step_lists

# The most crashes that may be unsettled at once: each doubles the number of possible states.
MAX_CRASHES = 3
ROOT = ""


@dataclass(frozen=True)
class Node:
    name: str
    slug: str
    parent: str


Tree = dict[str, Node]


@dataclass(frozen=True)
class Call:
    """A mutation with its input. The model identifies a category by the key of the call that creates it."""

    mutation: str
    key: str
    id: str
    name: str
    slug: str
    parent: str


@dataclass(frozen=True)
class Step:
    """The next action of the machine, as choices among the objects that exist by then."""

    action: str
    mutation: str
    subject: int
    parent: int
    text: int
    stop: int


def way(tree: Tree, node_id: str) -> list[str]:
    """Return the ids from the root down to the node."""
    found: list[str] = []
    while node_id != ROOT:
        found.insert(0, node_id)
        node_id = tree[node_id].parent
    return found


def carried_out(tree: Tree, call: Call) -> tuple[str, Tree]:
    """Return the answer to the call, and the hierarchy after it."""
    refusal = refused(tree, call)
    if refusal is not None:
        return refusal, tree
    if call.mutation == "deleteCategory":
        return "DeletedPayload", {key: node for key, node in tree.items() if key != call.id}
    if call.mutation == "createCategory":
        node = Node(call.name, call.slug, call.parent)
    elif call.mutation == "renameCategory":
        node = replace(tree[call.id], name=call.name, slug=call.slug)
    else:
        node = replace(tree[call.id], parent=call.parent)
    return "CategoryPayload", {**tree, call.id: node}


def refused(tree: Tree, call: Call) -> str | None:
    is_new = call.mutation == "createCategory"
    needed = set() if is_new else {call.id}
    if call.mutation in {"createCategory", "moveCategory"}:
        needed |= {call.parent} - {ROOT}
    if not needed <= tree.keys():
        return "NotFound"
    others = [node for key, node in tree.items() if is_new or key != call.id]
    if call.mutation in {"createCategory", "renameCategory"} and any(node.slug == call.slug for node in others):
        return "SlugTaken"
    if call.mutation == "moveCategory" and call.id in way(tree, call.parent):
        return "CategoryCycle"
    if call.mutation == "deleteCategory" and any(node.parent == call.id for node in others):
        return "CategoryNotEmpty"
    return None


def is_done(answer: str) -> bool:
    return answer in {"CategoryPayload", "DeletedPayload"}


@dataclass
class Hierarchy(Machine):
    """A gateway and the states that it may be in."""

    possible: list[Tree] = field(default_factory=lambda: [{}])
    crashed: list[Call] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    # The categories that a call may have deleted.
    deleted: set[str] = field(default_factory=set)
    ids: dict[str, str | None] = field(
        default_factory=lambda: {ROOT: None, "nothing": Kind.encode_id("Category", ObjectId())}
    )
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def next_call(self, step: Step) -> Call:
        key = f"key-{next(self.numbers)}"
        nodes = [ROOT, *self.known]
        parent = await self.named(nodes[step.parent % len(nodes)])
        if step.mutation == "createCategory" or not self.known:
            self.known.append(key)
            return Call("createCategory", key, key, f"Name {step.text}", f"slug-{step.text}", parent)
        own = await self.named(self.known[step.subject % len(self.known)])
        if step.mutation == "deleteCategory":
            self.deleted.add(own)
        return Call(step.mutation, key, own, f"Name {step.text}", f"slug-{step.text}", parent)

    async def named(self, node: str) -> str:
        """Return the node, or `nothing` if its creation crashed before a caller could know the id."""
        return node if node == ROOT or await self.id_of(node) is not None else "nothing"

    async def id_of(self, node: str) -> str | None:
        if node not in self.ids:
            record = await self.gateway.db["operations"].find_one({"_id": record_id_of("tester", node)})
            if record is None:
                return None
            self.ids[node] = Kind.encode_id("Category", derived_id(record["operation"], "category"))
        return self.ids[node]

    async def given(self, call: Call) -> dict[str, Any]:
        texts = {"name": call.name, "slug": call.slug}
        own, parent = {"id": await self.id_of(call.id)}, await self.id_of(call.parent)
        inputs: dict[str, dict[str, Any]] = {
            "createCategory": {**texts, "parentId": parent},
            "renameCategory": {**own, **texts},
            "moveCategory": {**own, "newParentId": parent},
            "deleteCategory": own,
        }
        return {**inputs[call.mutation], "idempotencyKey": call.key}

    async def must_wait(self, call: Call) -> bool:
        """Return whether the call would wait for the mark of a crashed call. Other tests cover that wait, which is
        long.
        """
        for mark in ("pending", "deleting", "moving"):
            async for category in self.gateway.db["categories"].find({mark: {"$exists": True}}):
                marked = Kind.encode_id("Category", category["_id"])
                if marked in {await self.id_of(call.id), await self.id_of(call.parent)} or (
                    mark == "moving" and call.mutation == "moveCategory"
                ):
                    return True
        return False

    async def call(self, step: Step) -> None:
        call = await self.next_call(step)
        if not await self.must_wait(call):
            self.learn(call, await self.gateway.result(call.mutation, await self.given(call)))

    def learn(self, call: Call, result: dict[str, Any]) -> None:
        """Drop the states that contradict the answer."""
        outcome = result["__typename"]
        outcomes = [carried_out(tree, call) for tree in self.possible]
        if not self.crashed or is_done(outcome):
            self.possible = unique([tree for answer, tree in outcomes if answer == outcome])
        assert self.possible, (call, result)
        if outcome == "CategoryPayload" and not self.crashed:
            tree, shown = self.possible[0], result["category"]
            above = [(tree[key].slug, tree[key].name) for key in way(tree, call.id)[:-1]]
            assert [(crumb["slug"], crumb["name"]) for crumb in shown["breadcrumbs"]] == above
            assert (shown["name"], shown["slug"]) == (tree[call.id].name, tree[call.id].slug)

    async def crash(self, step: Step) -> None:
        call = await self.next_call(step)
        if len(self.crashed) == MAX_CRASHES or await self.must_wait(call):
            return
        given = await self.given(call)
        with crashing(self.gateway, step.stop) as faulty:
            answer = await self.gateway.ask(MUTATIONS[call.mutation], {"input": given})
        if faulty.has_crashed:
            self.crashed.append(call)
            self.possible = unique([state for tree in self.possible for state in (tree, carried_out(tree, call)[1])])
        else:
            self.learn(call, answer.data[call.mutation])

    async def repeat(self, step: Step) -> None:
        """Retry a crashed call with its key, once the key is free."""
        if not self.crashed:
            return
        call = self.crashed[step.subject % len(self.crashed)]
        self.clock.advance(seconds=31)
        if len(self.crashed) > 1 or step.text % 2:
            # The retry must not wait for the marks of other crashed calls.
            await self.gateway.run_jobs()

        outcome = (await self.gateway.result(call.mutation, await self.given(call)))["__typename"]

        # If the call was carried out before, it is not carried out again.
        outcomes = [(tree, *carried_out(tree, call)) for tree in self.possible]
        kept = [after for _, answer, after in outcomes if answer == outcome]
        if is_done(outcome):
            kept += [tree for tree in self.possible if self.shows(tree, call)]
        elif outcome == "NotFound" and call.mutation == "createCategory" and call.id in self.deleted:
            # It was carried out before, and the category has been deleted since.
            kept += [tree for tree in self.possible if call.id not in tree]
        self.possible = unique(kept)
        assert self.possible, (call, outcome)
        await self.settle()

    @staticmethod
    def shows(tree: Tree, call: Call) -> bool:
        """Return whether the call may have left this hierarchy."""
        if call.mutation == "deleteCategory":
            return call.id not in tree
        return call.id in tree

    async def settle(self) -> None:
        """Assert that the stored state, with all ancestors, is a possible one, and drop the others."""
        actual: Tree = {}
        lines: dict[str, list[tuple[str, str, str]]] = {}
        keys = {await self.id_of(key): key for key in self.known}
        async for category in self.gateway.db["categories"].find({}):
            key = keys[Kind.encode_id("Category", category["_id"])]
            parent = ROOT if category["parent"] is None else keys[Kind.encode_id("Category", category["parent"])]
            actual[key] = Node(category["name"], category["slug"], parent)
            lines[key] = [
                (keys[Kind.encode_id("Category", above["_id"])], above["slug"], above["name"])
                for above in category["ancestors"]
            ]
            assert {"pending", "moving", "deleting"}.isdisjoint(category), category
            assert not category.get("refresh"), category
        assert actual in self.possible
        for key, line in lines.items():
            assert line == [(above, actual[above].slug, actual[above].name) for above in way(actual, key)[:-1]]
        self.possible, self.crashed = [actual], []


def unique(trees: list[Tree]) -> list[Tree]:
    found: list[Tree] = []
    for tree in trees:
        if tree not in found:
            found.append(tree)
    return found


SOME = st.integers(0, 99)
STEPS = st.builds(
    Step,
    action=st.sampled_from(["call", "call", "crash", "crash", "repeat", "jobs", "crash jobs"]),
    mutation=st.sampled_from(["createCategory", "createCategory", "renameCategory", "moveCategory", "deleteCategory"]),
    subject=SOME,
    parent=SOME,
    text=st.integers(0, 9),
    stop=st.integers(0, 6),
)


@examples()
@given(steps=step_lists(STEPS))
async def test_the_hierarchy_matches_the_model_after_any_crashes(gateway: GatewayClient, steps: list[Step]) -> None:
    for collection in ("categories", "operations"):
        await gateway.db[collection].delete_many({})
    machine = Hierarchy(gateway, gateway.clock)

    for step in steps:
        await machine.take(step)

    await machine.jobs()
    await assert_invariants(gateway)
