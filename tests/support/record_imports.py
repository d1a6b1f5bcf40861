"""Imports of a few records by an importer with its options."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.clock import SystemClock
from portico.gateway.imports.runs import BadRecord, Import, Importer


async def import_records(
    db: Any, importer: Importer, folder: Path, records: tuple[Any, ...]
) -> tuple[Counter[str], dict[int, str]]:
    """Imports the records from a file. Returns how many had each outcome, and why lines were refused."""
    file = folder / "records.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps(record) for record in records))
    bad: list[BadRecord] = []
    counts = (await Import(db, importer, SystemClock(), bad.append, lambda _: None).run([file])).counts
    return counts, {one.line: one.reason if one.line else str(one) for one in bad}
