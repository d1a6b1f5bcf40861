"""Kits: what a domain tells the tests that run on every domain."""

from __future__ import annotations

import importlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from graphql import GraphQLSchema

from portico.gateway.domains import BUILT_IN, schema_of

if TYPE_CHECKING:
    from .stages import Stage

GROUP = "portico.kits"
Given = dict[str, Any]
T = TypeVar("T")


async def nothing() -> None: ...


@dataclass
class Failure:
    """An input that fails, and a function that removes the cause."""

    given: Given
    repair: Callable[[], Awaitable[object]] = nothing


Failing = Callable[[Any], Awaitable[Failure]]
# For each name of an argument, the values that find an object.
Known = dict[str, list[str]]
# A collection, and a filter that matches only what was left there.
Left = tuple[str, dict[str, Any]]


def fails_with(given: Callable[[], Given]) -> Failing:
    """Returns a failure whose input fails on any data."""

    async def fail(gateway: Any) -> Failure:
        return Failure({name: value(gateway) if callable(value) else value for name, value in given().items()})

    return fail


@dataclass(frozen=True, kw_only=True)
class Kit:
    """What a domain tells the tests that run on every domain. Functions get the running gateway.

    Args:
        adds:       a root field and a type that only the domain adds to the schema.
        mutations:  what each mutation selects on its union, besides `__typename` and `message`, by its name.
        inputs:     for each mutation, creates what two calls need. Returns their inputs, each of which succeeds alone.
        untried:    the mutations without such inputs, because other tests repeat them.
        failures:   for each mutation and each of its errors, creates an input that fails with it.
        unfailed:   the pairs of a mutation and its error that other tests cause.
        leftovers:  for each job, functions that create what an old crash leaves to it. Each returns where it is: the
                    name of a collection, and a filter that matches only what was left there.
        background: the collections that it writes after it has answered.
        scattered:  the commands that its jobs and checks send to all shards: the verb, the collection and the paths.
        budgets:    the sorted commands that each named operation may send.
        state:      returns what a call changes, as users see it. `try_mutation` compares it with that after a call that
                    nothing disturbs. By default, it is the effect of `effect_of`.
        stages:     data with cases of calls, each of which is tried in every way of `WAYS`.
        seed:       creates objects of every type. Gets the values that find the objects of earlier kits, by the name of
                    the argument, and returns its own.
    """

    adds: tuple[str, str]
    mutations: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Callable[[Any], Awaitable[tuple[Given, Given]]]] = field(default_factory=dict)
    untried: Collection[str] = ()
    failures: Mapping[tuple[str, str], Failing] = field(default_factory=dict)
    unfailed: Collection[tuple[str, str]] = ()
    leftovers: Mapping[str, Sequence[Callable[[Any], Awaitable[Left]]]] = field(default_factory=dict)
    background: Collection[str] = ()
    scattered: Collection[str] = ()
    budgets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    state: Callable[[Any], Awaitable[Any]] | None = None
    stages: Sequence[type[Stage]] = ()
    seed: Callable[[Any, Known], Awaitable[Known]] | None = None

    def text(self, gateway: Any, name: str) -> str:
        """Returns the text of an operation that calls a mutation with `$input`."""
        schema = schema_of(gateway.domains)._schema  # noqa: SLF001 - strawberry has no public attribute for it
        return mutation_text(schema, name, self.mutations[name])

    async def call(self, gateway: Any, name: str, given: Given) -> Given:
        """Calls a mutation. Returns its union member: the payload, or a failure. Fails if the answer has `errors`."""
        answered = await gateway.data(self.text(gateway, name), {"input": given})
        found: Given = answered[name]
        return found


def read_budgets(kit: str) -> dict[str, list[str]]:
    """Reads `budgets.json`, which is beside the module of a kit; `kit` is the path of the module."""
    found: dict[str, list[str]] = json.loads(Path(kit).with_name("budgets.json").read_text())
    return found


def find_kits(names: Sequence[str], package: str) -> dict[str, Kit]:
    """Returns the kit of each of these domains that has one.

    The kit of a built-in domain is `KIT` of the module `kit` in its folder of the package. The kit of a domain of
    another package is an entry point of the group `portico.kits` with the name of the domain.
    """
    outside = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    found: dict[str, Kit] = {}
    for name in names:
        if name in BUILT_IN:
            found[name] = importlib.import_module(f"{package}.{name}.kit").KIT
        elif name in outside:
            found[name] = outside[name].load()
    return found


def merged(parts: Sequence[Mapping[T, Any]]) -> dict[T, Any]:
    """Returns the entries of all parts. Fails if two parts have the same key."""
    found: dict[T, Any] = {}
    for part in parts:
        both = found.keys() & part.keys()
        assert not both, f"two kits have {both}"
        found.update(part)
    return found


def mutation_text(schema: GraphQLSchema, name: str, selection: str = "") -> str:
    """Returns the text of an operation that calls a mutation with `$input`, and selects `__typename` and `message`."""
    assert schema.mutation_type is not None
    kind = schema.mutation_type.fields[name].args["input"].type
    selected = f"__typename ... on UserError {{ message }} {selection}"
    return f"mutation ($input: {kind}) {{ {name}(input: $input) {{ {selected} }} }}"
