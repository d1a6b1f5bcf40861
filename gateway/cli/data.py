"""What the commands do with the database."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from portico.gateway.demo import gallery
from portico.gateway.demo import shop_data as demo
from portico.gateway.demo import site_data as demo_site
from portico.gateway.imports.reddit import Threads
from portico.gateway.imports.runs import IMPORTERS, BadRecord, Import, Summary, comments
from portico.gateway.mongo import embedded
from portico.gateway.mongo.database_clock import clock_of
from portico.gateway.mongo.driver import connect, reach
from portico.gateway.payments import provider as payments
from portico.gateway.pictures.checking import upload_rules
from portico.gateway.settings import Settings
from portico.gateway.work.doctor import INVARIANTS, Invariant
from portico.gateway.work.jobs import Worker
from portico.resolvers.documents import LENIENT, Database
from portico.resolvers.indexes import create_indexes, migrate, shard_collections
from portico.resolvers.server_time import server_time

from .printing import printable

_SHOWN = 50


@contextlib.contextmanager
def held(settings: Settings) -> Iterator[None]:
    """Holds the embedded MongoDB, where there is one, so that it stays from the first step to the last."""
    if settings.mongodb_uri is not None:
        yield
        return
    hold = embedded.attach(settings)
    try:
        yield
    finally:
        hold.close()


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Database]:
    """The database, which answers. Raises a driver's error where it does not."""
    uri: str | None = settings.mongodb_uri
    with contextlib.ExitStack() as stack:
        if uri is None:
            hold = await asyncio.to_thread(embedded.attach, settings)
            stack.callback(hold.close)
            uri = hold.uri
        connection = connect(settings, uri)
        try:
            await reach(connection.database)
            yield connection.database
        finally:
            await connection.close()


async def check_database(settings: Settings) -> None:
    """Raises a driver's error where the database does not answer."""
    async with opened(settings):
        pass


async def load_demo(settings: Settings, size: int, out: Console) -> None:
    """Loads the shop and its site, stocks it, opens accounts for its viewer, and hangs pictures into a gallery.

    What is there already stays as it is, or is brought back to what it was.
    """
    async with opened(settings) as db:
        async for _ in create_indexes(db):
            pass
        with tempfile.TemporaryDirectory() as folder:
            for subject, files in (
                ("categories", [demo.CATEGORIES]),
                ("products", demo.multiplied(size, Path(folder))),
                ("posts", [demo_site.POSTS]),
                ("comments", [demo_site.COMMENTS]),
            ):
                summary = await _import(db, settings, subject, files, out, out)
                out.print(_counts(subject, summary))
        now = await server_time(db)
        out.print(f"pages: {await demo_site.write_pages(db, now=now):,}")
        out.print(f"photos: {await gallery.hang_pictures(db, upload_rules(settings), now=now):,} in the gallery")
        out.print(f"stock: {await demo.stock_up(db, now=now):,} products")
        out.print(f"accounts: {await demo.open_accounts(db, now=now):,} with money in them")


async def import_files(
    settings: Settings,
    subject: str,
    files: Sequence[Path],
    out: Console,
    errors: Console,
    threads: Threads | None = None,
) -> bool:
    """Whether every record was good. `threads` tells what exported comments are about."""
    async with opened(settings) as db:
        async for _ in create_indexes(db):
            pass
        summary = await _import(db, settings, subject, files, out, errors, threads)
    out.print(_counts(subject, summary))
    return not summary.counts["failed"]


async def _import(
    db: Database,
    settings: Settings,
    subject: str,
    files: Sequence[Path],
    out: Console,
    errors: Console,
    threads: Threads | None = None,
) -> Summary:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=not out.is_terminal) as progress:
        task = progress.add_task(subject, total=sum(file.stat().st_size for file in files))

        def on_bad(bad: BadRecord) -> None:
            shown = printable(f"{bad.file}:{bad.line}: {bad.reason}")
            errors.print(shown, markup=False, highlight=False, soft_wrap=True)

        def on_progress(read: int) -> None:
            progress.advance(task, read)

        importer = IMPORTERS[subject] if threads is None else comments(threads)
        async with clock_of(db) as clock:
            work = Import(db, importer, clock, on_bad, on_progress, upload_rules(settings))
            return await work.run(files)


def _counts(subject: str, summary: Summary) -> str:
    names = ("created", "changed", "unchanged", "failed")
    found = [f"{summary.counts[name]:,} {name}" for name in names if summary.counts[name]]
    return f"{subject}: {', '.join(found) or 'nothing to do'}"


async def show_indexes(settings: Settings, out: Console) -> None:
    table = Table("collection", "index")
    async with opened(settings) as db:
        async for collection, names in create_indexes(db, rebuild=True):
            for name in names:
                table.add_row(collection, name)
    out.print(table)


async def shard(settings: Settings, out: Console) -> None:
    async with opened(settings) as db:
        async for collection, key in shard_collections(db):
            out.print(f"{collection} is sharded by {key}")


async def examine(settings: Settings, out: Console, *, repair: bool) -> int:
    """Reports each invariant. Returns how many problems are left."""
    async with opened(settings) as db:
        checked = db.with_options(codec_options=LENIENT)
        return sum([await judge(checked, invariant, out, repair=repair) for invariant in INVARIANTS])


async def judge(db: Database, invariant: Invariant, out: Console, *, repair: bool) -> int:
    """Reports whether the invariant holds. Returns how many problems are left; what nobody can tell is none."""
    found = mended = unclear = 0
    async for problem in invariant.problems(db):
        if problem.is_open:
            unclear += 1
        else:
            found += 1
        if repair and await problem.mend():
            mended += 1
        if found + unclear <= _SHOWN:
            out.print(printable(f"  {problem.subject}: {problem.text}"), markup=False, soft_wrap=True)
    verdict = f" {found:,} wrong, {mended:,} mended." if found else ""
    if unclear:
        verdict += f" {unclear:,} could not be judged: check again at a quieter hour."
    out.print(f"{'ok  ' if found == mended else 'FAIL'} {invariant.name}{verdict}", markup=False, soft_wrap=True)
    return found - mended


async def migrate_documents(settings: Settings, out: Console) -> None:
    total = 0
    async with opened(settings) as db:
        async for collection, count in migrate(db):
            total += count
            out.print(f"{collection}: {count}")
    out.print(f"{total:,} documents were brought up to date.")


async def work(settings: Settings, out: Console) -> None:
    # From the start: the driver may turn a cancellation of what comes first into a command that is tried again.
    stopping = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stopping.set)
    out.print("The jobs are running. Ctrl-C stops them.")
    async with opened(settings) as db, payments.opened(settings) as methods:
        async for _ in create_indexes(db):
            if stopping.is_set():
                return
        async with clock_of(db) as clock:
            running = asyncio.create_task(Worker(db, clock, settings.job_seconds, methods).run())
            told = asyncio.create_task(stopping.wait())
            await asyncio.wait({running, told}, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
