"""What the commands do with the database."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import strawberry
import typer

from portico.gateway import logs
from portico.gateway.demo.loading import Demo
from portico.gateway.domains import base_resources, load, schema_of, settings_of
from portico.gateway.imports.runs import BadRecord, Import, Importer, Summary
from portico.gateway.mongo import embedded
from portico.gateway.mongo.database_clock import clock_of
from portico.gateway.mongo.driver import connect, require_reachable
from portico.gateway.mongo.rights import require_rights
from portico.gateway.settings import PREFIX, Settings, SettingsError
from portico.gateway.work.jobs import Worker
from portico.gateway.work.loop_watch import LoopWatch
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import LENIENT_FOR_REPAIRS, Database
from portico.resolvers.indexes import create_indexes, filling, migrate, shard_collections
from portico.resolvers.problems import Invariant, Problem
from portico.resolvers.server_time import server_time

from . import lines
from .lazy import import_lazily
from .printing import printable

if TYPE_CHECKING:
    from rich.console import Console

    from . import consoles
else:
    consoles = import_lazily("cli.consoles")

_SHOWN = 50


def read_settings() -> Settings:
    """Returns the settings from the environment. Warns about variables that look like a misspelt setting.

    Raises SettingsError, also for the settings of the domains that are served.
    """
    found = Settings.from_env()
    logs.configure(found)
    domains = load(found.domain_names)
    kinds = settings_of(found, domains)
    for given, meant in Settings.misspelt([*kinds]).items():
        lines.warn(f"there is no setting {given}. Did you mean {meant}?")
    return found


def require_settings(settings: Settings) -> None:
    """Raises SettingsError if settings do not fit together, also for those of the domains that are served."""
    base_resources(settings, load(settings.domain_names))


def schema(settings: Settings) -> strawberry.Schema:
    """Returns the schema of the domains that are served."""
    return schema_of(load(settings.domain_names))


@contextlib.contextmanager
def embedded_mongodb(settings: Settings) -> Iterator[None]:
    """Keeps the embedded MongoDB running during the block. Does nothing if the settings name another MongoDB."""
    if settings.mongodb_uri is not None:
        yield
        return
    hold = embedded.attach(settings)
    try:
        yield
    finally:
        hold.close()


def require_writable(settings: Settings, *, to_write: bool = True) -> None:
    """Raises SettingsError if a command that writes must only read."""
    if to_write and settings.read_only:
        raise SettingsError(f"{PREFIX}READ_ONLY is true, so a command that writes does not run.")


@contextlib.asynccontextmanager
async def connected_database(settings: Settings, *, to_write: bool = True) -> AsyncIterator[Database]:
    """Yields the database.

    Args:     to_write: whether the command writes.
    Raises:   an error of the driver, if the database does not answer. SettingsError, if the user of MongoDB lacks
              rights, or if a setting forbids to write.
    """
    require_writable(settings, to_write=to_write)
    names = [spec.name for spec in load(settings.domain_names).collections]
    uri: str | None = settings.mongodb_uri
    with contextlib.ExitStack() as stack:
        if uri is None:
            hold = await asyncio.to_thread(embedded.attach, settings)
            stack.callback(hold.close)
            uri = hold.uri
        connection = connect(settings, uri)
        try:
            await require_reachable(connection.database)
            await require_rights(connection.database, names, to_write=to_write)
            yield connection.database
        finally:
            await connection.close()


async def check_database(settings: Settings) -> bool:
    """Returns whether MongoDB is a single server. Raises an error of the driver if it does not answer."""
    async with connected_database(settings, to_write=not settings.read_only) as db:
        hello = await db.command("hello")
    return "setName" not in hello and hello.get("msg") != "isdbgrid"


async def load_demo(settings: Settings, size: int, out: Console) -> None:
    """Loads the demo data of every domain that is served."""
    domains = load(settings.domain_names)
    async with connected_database(settings) as db, domains.opened(base_resources(settings, domains), db) as resources:
        async for _ in create_indexes(db, domains.collections):
            pass

        async def load_files(subject: str, files: Sequence[Path]) -> None:
            out.print(
                _counts(subject, await _import(db, resources, domains.importers[subject], subject, files, out, out))
            )

        with tempfile.TemporaryDirectory() as folder:
            demo = Demo(db, await server_time(db), size, Path(folder), resources, load_files, out.print)
            for domain in domains.all:
                if domain.demo is not None:
                    await domain.demo(demo)


async def import_files(
    settings: Settings,
    name: str,
    files: Sequence[Path],
    out: Console,
    errors: Console,
    options: Mapping[str, Any] | None = None,
) -> bool:
    """Imports the files. Returns whether all records are valid. Raises ValueError for options that are invalid."""
    domains = load(settings.domain_names)
    importer = domains.importers[name].configured(options or {})
    async with connected_database(settings) as db, domains.opened(base_resources(settings, domains), db) as resources:
        async for _ in create_indexes(db, [spec for spec in domains.collections if spec is not importer.fills]):
            pass
        async with filling(db, importer.fills) if importer.fills else contextlib.nullcontext():
            summary = await _import(db, resources, importer, name, files, out, errors)
    out.print(_counts(name, summary))
    return not summary.counts["failed"]


async def _import(
    db: Database,
    resources: Resources,
    importer: Importer,
    name: str,
    files: Sequence[Path],
    out: Console,
    errors: Console,
) -> Summary:
    with consoles.progress_of(out) as progress:
        task = progress.add_task(name, total=sum(file.stat().st_size for file in files))

        def on_bad(bad: BadRecord) -> None:
            errors.print(printable(str(bad)), markup=False, highlight=False, soft_wrap=True)

        def on_progress(read: int) -> None:
            progress.advance(task, read)

        async with clock_of(db) as clock:
            return await Import(db, importer, clock, on_bad, on_progress, resources).run(files)


def _counts(subject: str, summary: Summary) -> str:
    names = ("created", "changed", "unchanged", "failed")
    found = [f"{summary.counts[name]:,} {name}" for name in names if summary.counts[name]]
    return f"{subject}: {', '.join(found) or 'nothing to do'}"


async def show_indexes(settings: Settings, out: Console) -> None:
    table = consoles.Table("collection", "index")
    async with connected_database(settings) as db:
        async for collection, names in create_indexes(db, load(settings.domain_names).collections, rebuild=True):
            for name in names:
                table.add_row(collection, name)
    out.print(table)


async def shard(settings: Settings, out: Console) -> None:
    async with connected_database(settings) as db:
        async for collection, key in shard_collections(db, load(settings.domain_names).collections):
            out.print(f"{collection} is sharded by {key}")


async def check_invariants(settings: Settings, out: Console, *, repair: bool) -> int:
    """Reports whether each invariant holds. Returns how many problems are left."""
    async with connected_database(settings, to_write=repair) as db:
        checked = db.with_options(codec_options=LENIENT_FOR_REPAIRS)
        found = load(settings.domain_names).invariants
        return sum([await check_invariant(checked, invariant, out, repair=repair) for invariant in found])


async def check_invariant(db: Database, invariant: Invariant, out: Console, *, repair: bool) -> int:
    """Reports whether the invariant holds. Returns how many problems are left, without those that are unclear.

    After a repair, the check runs again, because a repair does nothing if the document has changed, or is damaged.
    """
    found = unclear = 0
    mended: Counter[tuple[str, str]] = Counter()
    async for problem in invariant.problems(db):
        if problem.is_open:
            unclear += 1
        else:
            found += 1
        if repair and await problem.mend() and not problem.is_open:
            mended[problem.subject, problem.text] += 1
        if found + unclear <= _SHOWN:
            _print_problem(problem, out)
    repaired = mended.total()
    if repaired:
        async for problem in invariant.problems(db):
            if mended[problem.subject, problem.text]:
                mended[problem.subject, problem.text] -= 1
                repaired -= 1
    verdict = f" {found:,} wrong, {repaired:,} repaired." if found else ""
    if unclear:
        verdict += f" {unclear:,} changed during the check: check again when there are fewer writes."
    out.print(f"{'ok  ' if found == repaired else 'FAIL'} {invariant.name}{verdict}", markup=False, soft_wrap=True)
    return found - repaired


def _print_problem(problem: Problem, out: Console) -> None:
    out.print(printable(f"  {problem.subject}: {problem.text}"), markup=False, soft_wrap=True)


async def migrate_documents(settings: Settings, out: Console) -> None:
    total = 0
    async with connected_database(settings) as db:
        async for collection, count in migrate(db, load(settings.domain_names).collections):
            total += count
            out.print(f"{collection}: {count}")
    out.print(f"Upgraded {total:,} documents.")


async def run_jobs(settings: Settings) -> None:
    """Runs the jobs until SIGINT or SIGTERM."""
    require_writable(settings)
    require_settings(settings)
    # The handlers come first. A cancellation during the next steps could make the driver retry a command instead.
    stopping = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stopping.set)
    domains = load(settings.domain_names)
    async with connected_database(settings) as db, domains.opened(base_resources(settings, domains), db) as resources:
        async for _ in create_indexes(db, domains.collections):
            if stopping.is_set():
                return
        async with clock_of(db) as clock:
            address = settings.database_address
            worker = Worker(db, clock, settings.job_seconds, resources, domains.jobs, database=address)
            watch = LoopWatch()
            running = asyncio.create_task(worker.run())
            typer.echo("The jobs are running. Press Ctrl-C to stop them.")
            stop_requested = asyncio.create_task(stopping.wait())
            await asyncio.wait({running, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
            await watch.aclose()
            stop_requested.cancel()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
