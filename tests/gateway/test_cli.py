"""The command line: what each command prints, what it does, and its exit status."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import jwt
import pytest
from bson import ObjectId
from pymongo import MongoClient

from portico.gateway.cli import lines as printed
from portico.gateway.settings import Settings
from tests.catalog.support.catalog import album
from tests.support.domains import COLLECTIONS, IMPORTERS, INVARIANTS
from tests.support.harness import SECRET, GatewayClient, create_category, create_product
from tests.support.importing import lines, write
from tests.support.processes import environment, eventually, portico, served, started
from tests.support.roles import ROLES

COMMANDS = (
    *("serve", "demo", "payment-service", "schema", "documents", "explain", "indexes"),
    *("shard", "import", "token", "doctor", "migrate", "worker"),
)
COMMITTED = Path(__file__).parents[2] / "schema.graphql"
CATEGORIES = [{"slug": "music", "name": "Music"}, {"slug": "jazz", "name": "Jazz", "parent": "music"}]


@pytest.fixture
def env(settings: Settings) -> dict[str, str]:
    return environment(settings)


@pytest.fixture
def shop(settings: Settings) -> Iterator[Any]:
    """The database of the test, with two categories, one below the other."""
    music = {"_id": ObjectId(), "slug": "music", "name": "Music"}
    jazz = {"_id": ObjectId(), "slug": "jazz", "name": "Jazz", "parent": music["_id"], "ancestors": [music]}
    with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
        database = client[settings.database]
        database["categories"].insert_many([{**music, "parent": None, "ancestors": []}, jazz])
        yield database


def test_the_version_option_prints_the_version() -> None:
    assert portico("--version").stdout.strip() == metadata.version("portico")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_do_not_import_the_gateway(option: str) -> None:
    command = f"from portico.gateway.cli import commands; commands.app(['{option}'], standalone_mode=False)"
    code = f"import sys; {command}; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    # These modules take most of the second that a full import takes.
    assert {"strawberry", "graphql", "pymongo", "starlette", "uvicorn", "httpx", "structlog"}.isdisjoint(
        done.stdout.splitlines()[-1].split()
    )


def test_every_command_describes_itself_and_its_options() -> None:
    with ThreadPoolExecutor(3) as pool:
        whole, *each = pool.map(lambda command: portico(*command, "--help"), [(), *((name,) for name in COMMANDS)])

    assert (whole.returncode, whole.stderr) == (0, "")
    assert "Settings come from the environment" in whole.stdout
    for name, shown in zip(COMMANDS, each, strict=True):
        assert re.search(rf"^  {name} +[A-Z].+", whole.stdout, re.MULTILINE)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith(f"Usage: portico {name} ")
        about, _, options = shown.stdout.partition("Options:")
        assert re.search(r"[A-Z][a-z].+\.", about.split("\n", 1)[1], re.DOTALL)
        for option in re.split(r"\n(?=  --)", options)[1:]:
            assert re.search(r" {2,}[A-Z][a-z]?.*\.", option, re.DOTALL), f"{name}: {option}"


def test_the_token_command_prints_only_a_token_with_the_requested_claims(env: dict[str, str]) -> None:
    roles = [role.name for role in ROLES]
    options = [option for role in roles for option in ("--role", role)]
    options += ["--role", "merchant", "--hours", "2", "--name", "Ann Lee"]
    done = portico("token", "--sub", "Ann", *options, env=env)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    claims = jwt.decode(done.stdout.strip(), str(SECRET), algorithms=["HS256"], audience="portico")
    assert (claims["sub"], claims["roles"], claims["name"]) == ("Ann", [*roles, "MERCHANT"], "Ann Lee")
    assert claims["exp"] - claims["iat"] == 7200
    assert abs(claims["iat"] - time.time()) < 60


def test_a_gateway_with_the_same_data_folder_accepts_the_token(settings: Settings, tmp_path: Path) -> None:
    env = environment(settings, PORTICO_DATA_DIR=str(tmp_path / "data"))
    del env["PORTICO_JWT_SECRET"]

    token = portico("token", "--sub", "Ann", env=env).stdout.strip()
    with served(tmp_path / "served", env) as gateway:
        answer = gateway.ask("{ viewer { subject } }", token)

    assert answer.json() == {"data": {"viewer": {"subject": "Ann"}}}


def test_a_token_needs_a_subject_and_existing_roles(env: dict[str, str]) -> None:
    without, unknown = portico("token", env=env), portico("token", "--sub", "a", "--role", "emperor", env=env)

    assert (without.returncode, unknown.returncode) == (2, 2)
    assert "--sub" in without.stderr
    assert "emperor" in unknown.stderr
    assert "Traceback" not in without.stderr + unknown.stderr


def test_the_committed_schema_is_up_to_date() -> None:
    done = portico("schema")

    assert done.returncode == 0
    assert done.stdout == COMMITTED.read_text(), "run `portico schema > schema.graphql`"


@pytest.mark.parametrize(
    ("present", "older", "status", "expected"),
    [
        ("", "", 0, "No changes."),
        ('  """Titles, in order."""\n  tracks: [String!]!\n', "", 0, "safe"),
        ('"""Everything else."""\n  GENERAL\n', "", 3, "dangerous"),
        ("  tracks: [String!]!\n", "  tracks: [String!]!\n  sides: Int\n", 4, "breaking"),
        ("  tracks: [String!]!\n", "  tracks: [Int!]!\n", 4, "breaking"),
    ],
)
def test_schema_check_lists_changes_with_their_severity_and_sets_the_status(
    tmp_path: Path, present: str, older: str, status: int, expected: str
) -> None:
    text = COMMITTED.read_text()
    assert present in text
    (tmp_path / "older.graphql").write_text(text.replace(present, older, 1))

    done = portico("schema", "--check", str(tmp_path / "older.graphql"))

    assert (done.returncode, done.stderr) == (status, "")
    assert expected in done.stdout


def test_importing_good_files_again_changes_nothing(env: dict[str, str], tmp_path: Path) -> None:
    categories = write(tmp_path / "categories.jsonl", lines(CATEGORIES))
    records = lines(album(sku=f"P-{number}", categories=["jazz"]) for number in range(600))
    products = write(tmp_path / "products.jsonl.gz", gzip.compress(records))

    given = [("categories", categories), ("products", products), ("products", products)]
    done = [portico("import", subject, str(path), env=env) for subject, path in given]

    assert [one.returncode for one in done] == [0, 0, 0]
    assert [one.stdout.strip().splitlines()[-1] for one in done] == [
        "categories: 2 created",
        "products: 600 created",
        "products: 600 unchanged",
    ]


def test_an_import_names_bad_records_and_keeps_the_good_ones(env: dict[str, str], tmp_path: Path) -> None:
    portico("import", "categories", str(write(tmp_path / "categories.jsonl", lines(CATEGORIES))), env=env)
    good, red, lost = album(categories=["jazz"]), album(color="red"), album(categories=["nowhere"])
    cut = '{"sku": "\ud83d'.encode("utf-8", "surrogatepass")
    path = write(tmp_path / "products.jsonl", lines([good, b"nonsense", red, b"", album(), lost, b"[1]", cut]))

    done = portico("import", "products", str(path), env=env)

    assert done.returncode == 1
    assert done.stdout.strip().splitlines()[-1] == "products: 2 created, 5 failed"
    reasons = dict(line.split(": ", 1) for line in done.stderr.splitlines())
    assert reasons[f"{path}:2"].startswith("not JSON: ")
    assert reasons[f"{path}:3"] == "color: unknown field"
    assert reasons[f"{path}:6"] == "categories: There is no category 'nowhere'."
    assert reasons[f"{path}:7"] == "must be an object"
    assert reasons[f"{path}:8"].startswith("not JSON: ")
    assert len(reasons) == 5


@pytest.mark.parametrize("damage", ["cut off", "garbled", "no gzip"])
def test_an_import_keeps_the_readable_part_of_a_damaged_file(env: dict[str, str], tmp_path: Path, damage: str) -> None:
    whole = gzip.compress(lines({"slug": f"c-{number}", "name": "x" * 60} for number in range(9)))
    packed = {"cut off": whole[:-20], "garbled": whole[:-12] + b"\xff" * 12, "no gzip": whole[:2] + b"nonsense"}[damage]
    path = write(tmp_path / "categories.jsonl.gz", packed)

    done = portico("import", "categories", str(path), env=env)

    assert done.returncode == 1
    assert re.search(rf"{path}:\d+: the rest of the gzipped file cannot be read: .+", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"1 failed$", done.stdout.strip())


@pytest.mark.sample(3)
@pytest.mark.parametrize("subject", IMPORTERS)
def test_the_import_command_takes_every_importer_as_a_subject(env: dict[str, str], file: Path, subject: str) -> None:
    ended = portico("import", subject, str(write(file, lines([{"no such field": 1}]))), env=env)

    assert (ended.returncode, f"{subject}: 1 failed" in ended.stdout) == (1, True), ended


def test_indexes_are_created_and_listed(env: dict[str, str]) -> None:
    done = portico("indexes", env=env)

    assert done.returncode == 0
    for spec in COLLECTIONS:
        for index in spec.indexes:
            assert re.search(rf"{spec.name}\W+{re.escape(index.document['name'])}\W", done.stdout)


def test_sharding_needs_a_cluster(env: dict[str, str]) -> None:
    done = portico("shard", env=env)

    assert done.returncode == 1
    assert re.fullmatch(r"portico: .+\n", done.stderr)
    assert "shard" in done.stderr.lower()


async def test_doctor_reports_a_healthy_database(gateway: GatewayClient, env: dict[str, str]) -> None:
    jazz = await create_category(gateway, slug="jazz")
    await create_product(gateway, categoryIds=[jazz["id"]])

    done = portico("doctor", env=env)

    assert (done.returncode, done.stderr) == (0, "")
    assert [line[:4] for line in done.stdout.splitlines()] == ["ok  "] * len(INVARIANTS)


def test_doctor_finds_damage_and_repairs_it_if_that_is_safe(env: dict[str, str], shop: Any) -> None:
    # given a category with an outdated name among its ancestors, and a category whose parent does not exist
    shop["categories"].update_one({"slug": "jazz"}, {"$set": {"ancestors.0.name": "Noise"}})
    lost = {"_id": ObjectId(), "slug": "lost", "name": "Lost", "parent": ObjectId(), "ancestors": []}
    shop["categories"].insert_one(lost)

    found, mended, after = (portico("doctor", *options, env=env) for options in ((), ("--repair",), ()))

    assert [done.returncode for done in (found, mended, after)] == [1, 1, 1]
    assert "category jazz: its ancestors are out of date" in found.stdout
    assert "category lost: its parent does not exist" in found.stdout
    assert "2 wrong" in found.stdout
    assert "1 repaired" in mended.stdout
    assert "jazz" not in after.stdout
    assert "category lost: its parent does not exist" in after.stdout
    assert shop["categories"].find_one({"slug": "jazz"})["ancestors"][0]["name"] == "Music"


def test_migrate_upgrades_old_documents(env: dict[str, str], shop: Any) -> None:
    old = {"type": "Film", "details": {"genre": "Drama"}, "pricing": {"list": 1200, "retail": 1100}}
    shop["products"].insert_many({"sku": f"OLD-{number}", "title": "Old", **old} for number in range(150))

    done, again = portico("migrate", env=env), portico("migrate", env=env)

    assert (done.returncode, again.returncode) == (0, 0)
    assert done.stdout.splitlines() == ["categories: 2", "products: 100", "products: 50", "Upgraded 152 documents."]
    assert again.stdout.splitlines() == ["Upgraded 0 documents."]
    assert shop["products"].count_documents({"details.genres": ["Drama"], "schema_version": 3}) == 150


def test_a_worker_runs_the_jobs_and_stops_on_a_signal(settings: Settings, shop: Any, tmp_path: Path) -> None:
    # given a category whose creation was interrupted a minute ago
    jazz = shop["categories"].find_one({"slug": "jazz"})
    at = datetime.now(UTC) - timedelta(minutes=1)
    shop["categories"].update_one({"slug": "jazz"}, {"$set": {"pending": {"op": "r-1", "at": at}}})

    env = environment(settings, PORTICO_JOB_SECONDS="0.2", PORTICO_LOG_LEVEL="info", PORTICO_LOG_FORMAT="json")
    with started(tmp_path / "worker", env, "worker") as worker:
        # Another job upgrades it.
        done = {**jazz, "schema_version": 2, "words": ["jazz"]}
        eventually(lambda: shop["categories"].find_one({"slug": "jazz"}) == done)
        eventually(lambda: "job done" in worker.errors)
        begun = time.monotonic()
        worker.terminate()

        assert worker.wait() == 0
        # Less than the stop timeout, even on a busy machine.
        assert time.monotonic() - begun < 9
    assert "Traceback" not in worker.errors
    assert shop["leases"].count_documents({}) == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "is_colored"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_lines_are_coloured_unless_the_environment_asks_for_none(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, *, is_colored: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", shown := Terminal())
    monkeypatch.setattr(sys, "stderr", warned := Terminal())

    printed.warn("the port is taken")
    printed.show("Portico is at http://localhost.", bold="http://localhost")

    assert ("\x1b[33m" in warned.getvalue(), "\x1b[1m" in shown.getvalue()) == (is_colored, is_colored)
    if not is_colored:
        assert warned.getvalue() == "portico: the port is taken\n"
        assert shown.getvalue() == "Portico is at http://localhost.\n"
