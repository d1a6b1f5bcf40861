"""Imports files of records, as `portico import` does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.clock import Clock, SystemClock
from portico.gateway.imports.runs import BadRecord, Import
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Database
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient

Line = dict[str, Any] | bytes


@dataclass
class Imported:
    """The result of an import: its counts, and each invalid record with its line and reason."""

    counts: dict[str, int]
    bad: list[BadRecord]
    progress: list[int] = field(default_factory=list)

    @property
    def reasons(self) -> list[tuple[int, str]]:
        return [(one.line, one.reason) for one in sorted(self.bad, key=lambda one: one.line)]


def lines(given: Iterable[Line], end: bytes = b"\n") -> bytes:
    return b"".join((one if isinstance(one, bytes) else orjson.dumps(one)) + end for one in given)


async def run(
    db: Database, subject: str, *files: Path, resources: Resources | None = None, clock: Clock | None = None
) -> Imported:
    done = Imported({}, [])
    work = Import(db, IMPORTERS[subject], clock or SystemClock(), done.bad.append, done.progress.append, resources)
    done.counts = dict((await work.run(files)).counts)
    assert done.counts.get("failed", 0) == len(done.bad)
    return done


def write(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


async def put(
    db: Database, subject: str, file: Path, given: Iterable[Line], resources: Resources | None = None
) -> Imported:
    return await run(db, subject, write(file, lines(given)), resources=resources)


def category(slug: str, name: str, parent: str | None = None) -> dict[str, Any]:
    return {"slug": slug, "name": name} | ({} if parent is None else {"parent": parent})


async def breadcrumbs(gateway: GatewayClient, slug: str) -> list[str]:
    text = "query ($slug: String!) { category(slug: $slug) { name breadcrumbs { slug name } } }"
    found = (await gateway.data(text, {"slug": slug}))["category"]
    return [*(f"{crumb['slug']}/{crumb['name']}" for crumb in found["breadcrumbs"]), found["name"]]
