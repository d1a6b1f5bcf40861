"""Explains commands: what the server reports that it did for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portico.resolvers.documents import Database, Document

# Parameters that belong to the session, not to the command.
_SESSION = ("lsid", "txnNumber", "readConcern", "writeConcern", "maxTimeMS")
# The server explains only one statement of a write at a time.
_STATEMENTS = {"update": "updates", "delete": "deletes"}
_PLANNED = {"find", "aggregate", "count", "distinct", "findAndModify", *_STATEMENTS}


@dataclass(frozen=True)
class Plan:
    """How the server executed a command, or one statement of it."""

    command: Mapping[str, Any]
    stages: frozenset[str]
    indexes: frozenset[str]
    documents_examined: int
    keys_examined: int
    rows_sorted: int

    @property
    def name(self) -> str:
        """The command with its collection, e.g. `find products`."""
        verb = next(iter(self.command))
        return f"{verb} {self.command[verb]}"

    @property
    def scans_collection(self) -> bool:
        return "COLLSCAN" in self.stages

    @property
    def sorts_in_memory(self) -> bool:
        return "SORT" in self.stages


async def explain(db: Database, command: Mapping[str, Any]) -> list[Plan]:
    """Returns the plans of a command that was sent to this database. A command without a query has none."""
    return [
        _plan(statement, await db.command({"explain": statement, "verbosity": "executionStats"}))
        for statement in _statements(command)
    ]


def _plan(command: Document, answer: Document) -> Plan:
    parts = list(_parts(answer))
    return Plan(
        command,
        frozenset(part["stage"] for part in parts if "stage" in part),
        frozenset(part["indexName"] for part in parts if "indexName" in part),
        sum(part.get("totalDocsExamined", 0) for part in parts),
        sum(part.get("totalKeysExamined", 0) for part in parts),
        sum(part["inputStage"].get("nReturned", 0) for part in parts if part.get("stage") == "SORT"),
    )


def _statements(command: Mapping[str, Any]) -> Iterator[Document]:
    verb = next(iter(command))
    if verb not in _PLANNED:
        return
    plain = {name: value for name, value in command.items() if name not in _SESSION and not name.startswith("$")}
    if verb not in _STATEMENTS:
        yield plain
        return
    name = _STATEMENTS[verb]
    for statement in plain[name]:
        yield {**plain, name: [statement]}


def _parts(answer: Any) -> Iterator[Document]:
    """Yields every document in an explanation, except rejected plans."""
    if isinstance(answer, Mapping):
        yield dict(answer)
        for name, value in answer.items():
            if name not in {"rejectedPlans", "slotBasedPlan", "command"}:
                yield from _parts(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from _parts(value)
