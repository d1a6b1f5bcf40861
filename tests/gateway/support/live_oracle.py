"""Documented queries as live queries, and random writes to what they read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bson import ObjectId
from graphql import DefinitionNode, FieldNode, NameNode, OperationDefinitionNode, SelectionSetNode, parse, print_ast
from pymongo.errors import PyMongoError

from bench.documented import Asked, as_asked, documented_queries
from portico.resolvers.documents import Database, Document
from portico.resolvers.tasks import end
from tests.support.harness import GatewayClient
from tests.support.operations import comparable

SECONDS = 20.0


@dataclass
class Following:
    """A live query, and its last answer."""

    asked: Asked
    gateway: GatewayClient
    last: dict[str, Any] = field(default_factory=dict)
    answers: int = 0

    async def follow(self, answers: AsyncGenerator[Any, None]) -> None:
        async for answer in answers:
            self.last = json.loads(answer.json)
            self.answers += 1

    async def fresh(self) -> dict[str, Any]:
        return dict((await self.gateway.ask(self.asked.text, self.asked.variables)).body)

    async def converges(self, seconds: float = SECONDS) -> None:
        """Waits until the last answer is that of a fresh read. Fails if it stays another one."""
        until = time.monotonic() + seconds
        while comparable(fresh := await self.fresh()) != comparable(self.last) or not self.answers:
            assert time.monotonic() < until, (self.asked.where, self.last, fresh)
            await asyncio.sleep(0.02)


async def queries_of(demo: GatewayClient) -> list[Following]:
    """Returns the documented queries, each third one also with a part of what it selects of the same objects."""
    documented = await documented_queries(demo)
    documented += [with_less(asked) for asked in documented[::3]]
    found = [Following(asked, as_asked(demo, asked)) for asked in documented]
    # The same for callers who see less.
    less = [Following(one.asked, demo.as_caller("mara")) for one in found if one.asked.caller is None]
    return [*found, *less]


def with_less(asked: Asked) -> Asked:
    """Returns the query with each of its fields once more, under another name and with fewer fields below.

    So it reads the same objects twice, and shows different parts of them.
    """
    rng, document = random.Random(asked.text), parse(asked.text)
    definitions: list[DefinitionNode] = []
    for one in document.definitions:
        if isinstance(one, OperationDefinitionNode):
            fields = [node for node in one.selection_set.selections if isinstance(node, FieldNode)]
            more = [_renamed(_reduced(node, rng), f"less{number}") for number, node in enumerate(fields)]
            selections = (*one.selection_set.selections, *more)
            definitions.append(replace(one, selection_set=SelectionSetNode(selections=selections)))
        else:
            definitions.append(one)
    text = print_ast(replace(document, definitions=tuple(definitions)))
    return replace(asked, text=text, where=f"{asked.where}, with less")


def _reduced(node: FieldNode, rng: random.Random) -> FieldNode:
    """Returns the field with about half of the fields below it, and at least one."""
    if node.selection_set is None:
        return node
    selections = list(node.selection_set.selections)
    kept = [one for one in selections if rng.random() < 0.5] or [rng.choice(selections)]
    below = tuple(_reduced(one, rng) if isinstance(one, FieldNode) else one for one in kept)
    return replace(node, selection_set=SelectionSetNode(selections=below))


def _renamed(node: FieldNode, name: str) -> FieldNode:
    return replace(node, alias=NameNode(value=name))


@contextlib.asynccontextmanager
async def followed(queries: list[Following]) -> AsyncIterator[None]:
    tasks = []
    for query in queries:
        answers = query.gateway.answers(query.asked.live, query.asked.variables)
        tasks.append(asyncio.create_task(query.follow(answers)))
    try:
        async with asyncio.timeout(60):
            while not all(query.answers for query in queries):
                await asyncio.sleep(0.02)
                for task in tasks:
                    if task.done():
                        # It raises the error of a query that could not start.
                        task.result()
        yield
    finally:
        await end(*tasks)


class Writer:
    """Changes documents at random: a value becomes that of another document, or the document goes, or comes back."""

    def __init__(self, db: Database, shown: Mapping[str, Collection[object]], rng: random.Random) -> None:
        """`shown` has the keys of documents that live queries show, by collection. Most changes are of these."""
        self._db = db
        self._names = sorted(shown)
        self._shown = {name: sorted(ids_of(keys), key=repr) for name, keys in shown.items()}
        self._rng = rng
        self._gone: list[tuple[str, Document]] = []

    async def write(self) -> str:
        name = self._rng.choice(self._names)
        rows = await (await self._db[name].aggregate([{"$sample": {"size": 2}}])).to_list()
        if self._shown[name] and self._rng.random() < 0.8:
            shown = await self._db[name].find_one({"_id": self._rng.choice(self._shown[name])})
            rows = [shown, *rows] if shown else rows
        kinds: list[Callable[..., Any]] = [self._set, self._set, self._set, self._delete, self._copy, self._put_back]
        if not rows:
            return f"nothing in {name}"
        kind = self._rng.choice(kinds)
        with contextlib.suppress(PyMongoError):
            return f"{kind.__name__} {name} {rows[0]['_id']} {await kind(name, rows[0], rows[-1])}"
        return f"refused {kind.__name__} {name}"

    async def _set(self, name: str, row: Document, other: Document) -> object:
        path = self._rng.choice([path for path in leaves(row) if path != "_id"] or ["extra"])
        value = value_at(other, path)
        if self._rng.random() < 0.3:
            value = changed(value)
        update = {"$unset": {path: ""}} if value is None else {"$set": {path: value}}
        await self._db[name].update_one({"_id": row["_id"]}, update)
        return update

    async def _delete(self, name: str, row: Document, _other: Document) -> object:
        self._gone.append((name, row))
        await self._db[name].delete_one({"_id": row["_id"]})
        return ""

    async def _copy(self, name: str, row: Document, _other: Document) -> object:
        await self._db[name].insert_one(
            {**row, "_id": ObjectId() if isinstance(row["_id"], ObjectId) else changed(row["_id"])}
        )
        return ""

    async def _put_back(self, _name: str, _row: Document, _other: Document) -> object:
        if not self._gone:
            return "nothing"
        name, row = self._gone.pop()
        await self._db[name].replace_one({"_id": row["_id"]}, row, upsert=True)
        return name, row["_id"]


def ids_of(keys: Iterable[object]) -> list[Any]:
    """Returns the `_id` of each document whose key is plain. The key of an object id is its bytes."""
    ids = [ObjectId(key) if isinstance(key, bytes) and len(key) == len(ObjectId().binary) else key for key in keys]
    return [one for one in ids if isinstance(one, ObjectId | str) and one != "?"]


def leaves(document: Mapping[str, Any], above: str = "") -> list[str]:
    found = []
    for name, value in document.items():
        if name and "." not in name and not name.startswith("$"):
            nested = isinstance(value, dict) and value
            found += leaves(value, f"{above}{name}.") if nested else [f"{above}{name}"]
    return found


def value_at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}0"
    return value[:-1] if isinstance(value, list) else value
