"""The hierarchy against a model of it: any writes in any order, some of them crashed, and jobs that tidy up."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.faults import Crash
from resolvers.operations import derived_id, keyed_operation_id
from schema.nodes import encode_id

from .harness import MUTATIONS, GatewayClient, SettableClock, assert_invariants, run_jobs
from .interruptions import crashing

IS_SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
# So many crashes may lie unsettled at once: each doubles what may have become of the hierarchy.
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
    """A mutation with its input; ids of the model are those of the gateway, and `ROOT` is the place of roots."""

    mutation: str
    key: str
    id: str
    name: str
    slug: str
    parent: str

    @property
    def given(self) -> dict[str, Any]:
        parent = self.parent or None
        own: dict[str, Any] = {
            "createCategory": {"name": self.name, "slug": self.slug, "parentId": parent},
            "renameCategory": {"id": self.id, "name": self.name, "slug": self.slug},
            "moveCategory": {"id": self.id, "newParentId": parent},
            "deleteCategory": {"id": self.id},
        }[self.mutation]
        return {**own, "idempotencyKey": self.key}


@dataclass(frozen=True)
class Step:
    """What the machine does next, as choices among what there is by then."""

    action: str
    mutation: str
    subject: int
    parent: int
    text: int
    stop: int


def way(tree: Tree, node_id: str) -> list[str]:
    """The ids from the root down to the node."""
    found: list[str] = []
    while node_id != ROOT:
        found.insert(0, node_id)
        node_id = tree[node_id].parent
    return found


def carried_out(tree: Tree, call: Call) -> tuple[str, Tree]:
    """What the caller is told, and what the hierarchy is like afterwards."""
    create = call.mutation == "createCategory"
    has_slug = call.mutation in {"createCategory", "renameCategory"}
    has_parent = call.mutation in {"createCategory", "moveCategory"}
    missing = not create and call.id not in tree
    if missing or (has_parent and call.parent not in {ROOT, *tree} and call.parent != call.id):
        return "NotFound", tree
    if has_slug and any(node.slug == call.slug for key, node in tree.items() if create or key != call.id):
        return "SlugTaken", tree
    if create:
        return "CategoryPayload", {**tree, call.id: Node(call.name, call.slug, call.parent)}
    if call.mutation == "renameCategory":
        return "CategoryPayload", {**tree, call.id: replace(tree[call.id], name=call.name, slug=call.slug)}
    if call.mutation == "moveCategory":
        if call.id in way(tree, call.parent):
            return "CategoryCycle", tree
        return "CategoryPayload", {**tree, call.id: replace(tree[call.id], parent=call.parent)}
    if any(node.parent == call.id for node in tree.values()):
        return "CategoryNotEmpty", tree
    return "DeletedPayload", {key: node for key, node in tree.items() if key != call.id}


def is_done(answer: str) -> bool:
    return answer in {"CategoryPayload", "DeletedPayload"}


@dataclass
class Machine:
    """A gateway, and every state that it may be in: one, unless crashes lie unsettled."""

    gateway: GatewayClient
    clock: SettableClock
    possible: list[Tree] = field(default_factory=lambda: [{}])
    crashed: list[Call] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)

    async def take(self, step: Step) -> None:
        await {
            "call": self.call,
            "crash": self.crash,
            "repeat": self.repeat,
            "jobs": self.jobs,
            "crash jobs": self.crash_jobs,
        }[step.action](step)

    def next_call(self, step: Step) -> Call:
        key = f"key-{next(self.numbers)}"
        mutation = step.mutation if self.known else "createCategory"
        if mutation == "createCategory":
            own = encode_id("Category", derived_id(keyed_operation_id("tester", key), "category"))
            parents = [ROOT, *self.known]
            self.known.append(own)
        else:
            own = self.known[step.subject % len(self.known)]
            parents = [ROOT, *self.known]
        parent = parents[step.parent % len(parents)]
        return Call(mutation, key, own, f"Name {step.text}", f"slug-{step.text}", parent)

    async def must_wait(self, call: Call) -> bool:
        """Whether the call would wait for a mark that a crash has left, which is tested elsewhere and takes long."""
        for mark in ("pending", "deleting", "moving"):
            async for category in self.gateway.db["categories"].find({mark: {"$exists": True}}):
                marked = encode_id("Category", category["_id"])
                if marked in {call.id, call.parent} or (mark == "moving" and call.mutation == "moveCategory"):
                    return True
        return False

    async def call(self, step: Step) -> None:
        call = self.next_call(step)
        if not await self.must_wait(call):
            self.learn(call, await self.gateway.result(call.mutation, call.given))

    def learn(self, call: Call, result: dict[str, Any]) -> None:
        """Drops the states in which the caller would not have been told this."""
        told = result["__typename"]
        outcomes = [carried_out(tree, call) for tree in self.possible]
        if not self.crashed or is_done(told):
            self.possible = unique([tree for answer, tree in outcomes if answer == told])
        assert self.possible, (call, result)
        if told == "CategoryPayload" and not self.crashed:
            tree = self.possible[0]
            expected = [
                {"id": above, "slug": tree[above].slug, "name": tree[above].name} for above in way(tree, call.id)[:-1]
            ]
            shown = result["category"]
            assert (shown["id"], shown["breadcrumbs"]) == (call.id, expected)
            assert (shown["name"], shown["slug"]) == (tree[call.id].name, tree[call.id].slug)

    async def crash(self, step: Step) -> None:
        call = self.next_call(step)
        if len(self.crashed) == MAX_CRASHES or await self.must_wait(call):
            return
        with crashing(self.gateway, step.stop) as faulty:
            answer = await self.gateway.ask(MUTATIONS[call.mutation], {"input": call.given})
        if faulty.has_crashed:
            self.crashed.append(call)
            self.possible = unique([state for tree in self.possible for state in (tree, carried_out(tree, call)[1])])
        else:
            self.learn(call, answer.data[call.mutation])

    async def repeat(self, step: Step) -> None:
        """The caller whose call was cut off comes again with the key, once it is free."""
        if not self.crashed:
            return
        call = self.crashed[step.subject % len(self.crashed)]
        self.clock.advance(seconds=31)
        if len(self.crashed) > 1 or step.text % 2:
            # What other crashes have left must not make it wait.
            await run_jobs(self.gateway, self.clock)

        told = (await self.gateway.result(call.mutation, call.given))["__typename"]

        # It may have been carried out before; then it is not carried out again.
        outcomes = [(tree, *carried_out(tree, call)) for tree in self.possible]
        kept = [after for _, answer, after in outcomes if answer == told]
        if is_done(told):
            kept += [tree for tree in self.possible if self.shows(tree, call)]
        self.possible = unique(kept)
        assert self.possible, (call, told)
        await self.settle()

    @staticmethod
    def shows(tree: Tree, call: Call) -> bool:
        """Whether the hierarchy is such as the call may have left it."""
        if call.mutation == "deleteCategory":
            return call.id not in tree
        return call.id in tree

    async def jobs(self, _step: Step | None = None) -> None:
        self.clock.advance(seconds=6)
        await run_jobs(self.gateway, self.clock)
        await self.settle()

    async def crash_jobs(self, step: Step) -> None:
        self.clock.advance(seconds=6)
        with crashing(self.gateway, step.stop):
            try:
                await run_jobs(self.gateway, self.clock)
            except Crash:
                return

    async def settle(self) -> None:
        """What is stored is one of the possible states, ancestors and all; from here on it is the only one."""
        actual: Tree = {}
        lines: dict[str, list[dict[str, Any]]] = {}
        async for category in self.gateway.db["categories"].find({}):
            key = encode_id("Category", category["_id"])
            parent = ROOT if category["parent"] is None else encode_id("Category", category["parent"])
            actual[key] = Node(category["name"], category["slug"], parent)
            lines[key] = [{**step, "_id": encode_id("Category", step["_id"])} for step in category["ancestors"]]
            assert {"pending", "moving", "deleting"}.isdisjoint(category), category
            assert not category.get("refresh"), category
        assert actual in self.possible
        for key, line in lines.items():
            above = way(actual, key)[:-1]
            assert line == [{"_id": a, "slug": actual[a].slug, "name": actual[a].name} for a in above]
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
    stop=st.integers(0, 15),
)


@settings(
    max_examples=1_000 if IS_SOAK else 40,
    deadline=None,
    derandomize=not IS_SOAK,
    database=None,
    # Each example begins with an empty hierarchy of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=20, max_size=60 if IS_SOAK else 25))
async def test_the_hierarchy_is_what_its_model_says_whatever_crashes(
    gateway: GatewayClient, clock: SettableClock, steps: list[Step]
) -> None:
    for collection in ("categories", "operations"):
        await gateway.db[collection].delete_many({})
    machine = Machine(gateway, clock)

    for step in steps:
        await machine.take(step)

    await machine.jobs()
    await assert_invariants(gateway)
