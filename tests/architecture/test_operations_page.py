"""The page for operators lists everything that the code declares, and `make` does what the pages say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import typer

from portico.gateway.cli import commands as cli
from portico.resolvers.documents import CollectionSpec
from tests.support.domains import COLLECTIONS, DOMAINS, IMPORTERS, JOBS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
STARTED = (ROOT / "docs" / "getting-started.md").read_text()
SHOP = (ROOT / "docs" / "shop.md").read_text()


def rows_of(heading: str) -> Iterator[list[str]]:
    """The cells of the table below a heading, without the header row."""
    section = PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    for line in re.findall(r"^\| (`.*) \|$", section, re.MULTILINE):
        yield [cell.strip() for cell in line.split("|")]


def shard_key_of(spec: CollectionSpec) -> list[str]:
    """The cells of a collection: its name, its shard key, and the kind of the key."""
    if spec.shard_key is None:
        return [f"`{spec.name}`", "none", "stays on one shard"]
    paths = ", ".join(f"`{path}`" for path in spec.shard_key)
    is_hashed = "hashed" in spec.shard_key.values()
    is_unique = any(
        index.document.get("unique") and list(index.document["key"]) == list(spec.shard_key) for index in spec.indexes
    )
    return [f"`{spec.name}`", paths, "hashed" if is_hashed else "unique" if is_unique else "range"]


def test_every_collection_is_listed_with_its_shard_key() -> None:
    assert sorted(rows_of("## Sharding")) == sorted(shard_key_of(spec) for spec in COLLECTIONS)


def test_every_importer_is_listed_in_the_order_of_the_code() -> None:
    listed = [row[0] for row in rows_of("## Imports")]

    assert listed == [f"`{name}`" for name in IMPORTERS]


def test_the_page_says_what_identifies_a_record_and_where_its_fields_are_described() -> None:
    importing = (ROOT / "docs" / "importing.md").read_text()
    for name, key, first, page in rows_of("## Imports"):
        assert key
        assert first
        (anchor,) = re.findall(r"\(importing\.md#([\w-]+)\)", page)
        assert anchor in {
            title.lower().replace(" ", "-") for title in re.findall(r"^## (.*)$", importing, re.MULTILINE)
        }, name


def test_every_job_is_listed() -> None:
    assert sorted(row[0] for row in rows_of("## Jobs")) == sorted(f"`{job.name}`" for job in JOBS)


def test_every_invariant_is_listed_with_its_domain() -> None:
    assert list(rows_of("## Check the database")) == [
        [f"`{domain.name}`", invariant.name] for domain in DOMAINS.all for invariant in DOMAINS.invariants_of(domain)
    ]


def test_every_command_is_listed() -> None:
    group = typer.main.get_command(cli.app)
    assert isinstance(group, typer.core.TyperGroup)

    assert sorted(row[0] for row in rows_of("## Commands")) == sorted(f"`portico {name}`" for name in group.commands)


def test_make_clean_keeps_the_demo_data_as_its_help_and_the_pages_say() -> None:
    printed = [
        subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for arguments in (("--dry-run", "clean"), ("help",))
    ]

    assert "rm -rf .venv" in printed[0]
    assert ".portico" not in printed[0]
    assert "Remove everything built and installed. Keep the demo's data in .portico." in printed[1]
    (said,) = re.findall(r"`make clean` ([^.]*)\.", " ".join(STARTED.split()))
    assert "keeps" in said


def test_the_pages_stop_processes_only_by_the_id_that_the_demo_prints() -> None:
    commands = [line for page in (PAGE, STARTED, SHOP) for line in re.findall(r"^.*\bp?kill\b.*$", page, re.MULTILINE)]

    assert [line for line in commands if re.search(r"pgrep|pkill|killall", line)] == []
    assert "\nkill -9 PID\n" in SHOP
