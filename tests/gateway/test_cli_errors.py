"""If a command fails, it prints one line that says what is wrong, and exits with status 1."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient

from portico.gateway.cli import server
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.support.forks import PORTICO
from tests.support.harness import SECRET
from tests.support.processes import environment, eventually, portico, served, started, workers_of


def assert_one_line(done: subprocess.CompletedProcess[str], line: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"portico: {line}\n"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another process listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


_DAYS = ("PORTICO_LOG_DAYS", "some", "PORTICO_LOG_DAYS must be a finite number above zero; got 'some'.")
_ORIGIN = (
    "PORTICO_CORS_ORIGINS",
    "https://a.example, foo bar",
    "PORTICO_CORS_ORIGINS must be origins, for example https://shop.example, or `*`; got 'foo bar'.",
)
_SHARE = ("PORTICO_LOG_REQUESTS", "2", "PORTICO_LOG_REQUESTS must be a share, at most 1; got 2.")


@pytest.mark.parametrize(
    ("command", "name", "value", "line"),
    [
        ("indexes", "PORTICO_MAX_COST", "many", "PORTICO_MAX_COST must be a whole number above zero; got 'many'."),
        ("indexes", "PORTICO_EXECUTOR", "foo", "PORTICO_EXECUTOR must be one of compiled, reference; got 'foo'."),
        ("indexes", "PORTICO_DEMO", "perhaps", "PORTICO_DEMO must be true or false; got 'perhaps'."),
        # Settings of a domain.
        *((command, *_DAYS) for command in ("serve", "demo", "indexes", "doctor", "worker", "rollup")),
        *((command, *_SHARE) for command in ("serve", "demo", "worker")),
        ("worker", "PORTICO_TRADE_HISTORY_DAYS", "0.5", "PORTICO_TRADE_HISTORY_DAYS must be at least 1; got 0.5."),
        ("serve", *_ORIGIN),
    ],
)
def test_a_command_names_an_invalid_setting_before_anything_else(
    command: str, name: str, value: str, line: str, tmp_path: Path
) -> None:
    assert_one_line(portico(command, env=environment(PORTICO_DATA_DIR=str(tmp_path)) | {name: value}), line)


def test_a_command_warns_of_a_misspelled_setting(settings: Settings) -> None:
    done = portico("token", "--sub", "a", env=environment(settings, PORTICO_DATABSE="x"))

    assert done.returncode == 0
    assert done.stderr == "portico: there is no setting PORTICO_DATABSE. Did you mean PORTICO_DATABASE?\n"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("http://host/", "Invalid URI scheme"),
        ("mongodb://", "at least one hostname"),
        ("mongodb://host:port/", "Port"),
        ("mongodb://host/?replicaSet=rs&tlsCAfle=x", "Unknown option: tlsCAfle"),
        ("mongodb://host/?connectTimeoutMS=soon", "connectTimeoutMS"),
    ],
)
def test_a_command_reports_an_invalid_mongodb_uri(tmp_path: Path, uri: str, expected: str) -> None:
    done = portico("indexes", env=environment(PORTICO_MONGODB_URI=uri), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("portico: ")
    assert done.stderr.count("\n") == 1
    assert expected.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["admin", "config", "local"])
def test_a_command_refuses_a_database_of_mongodb_itself(tmp_path: Path, name: str) -> None:
    env = environment(PORTICO_MONGODB_URI="mongodb://host/", PORTICO_DATABASE=name)
    done = portico("indexes", env=env, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"portico: PORTICO_DATABASE must not be a database of MongoDB itself; got '{name}'.\n"


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_command_reports_that_mongodb_cannot_be_reached(closed_port: int, command: str, tmp_path: Path) -> None:
    secret = "mongodb://user:password@127.0.0.1"
    env = environment(PORTICO_MONGODB_URI=f"{secret}:{closed_port}/", PORTICO_DATA_DIR=str(tmp_path))

    done = portico(command, env=env)

    assert done.returncode == 1
    assert done.stderr.startswith(f"portico: MongoDB: 127.0.0.1:{closed_port}: ")
    assert done.stderr.count("\n") == 1
    assert "password" not in done.stderr


def test_serve_reports_that_its_port_is_taken(settings: Settings, taken: int) -> None:
    done = portico("serve", "--port", str(taken), env=environment(settings))

    assert_one_line(done, f"cannot listen on 127.0.0.1:{taken}: Address already in use.")


def test_a_port_is_bound_once_the_workers_of_a_killed_gateway_have_left() -> None:
    worker = socket.create_server(("127.0.0.1", 0))
    host, port = worker.getsockname()
    leaving = threading.Timer(0.3, worker.close)
    leaving.start()

    with server.bind(host, port, patience_seconds=30) as bound:
        assert bound.getsockname() == (host, port)
    leaving.join()


@pytest.fixture
def doubled(mongodb_uri: str, tmp_path: Path) -> Iterator[Settings]:
    """Settings with a database whose products have a SKU twice, so that its unique index cannot be built."""
    # A database of the pool would have the index.
    name = f"doubled_{uuid4().hex[:16]}"
    chosen = Settings(mongodb_uri=Secret(mongodb_uri), database=name, data_dir=tmp_path, jwt_secret=SECRET)
    with MongoClient[dict[str, Any]](mongodb_uri) as client:
        client[name]["products"].insert_many([{"sku": "twice"}, {"sku": "twice"}])
        yield chosen
        client.drop_database(name)


DOUBLED = "portico: MongoDB: Unique indexes are missing, because documents have the same key: collection: "


@pytest.mark.parametrize(
    "command", ["serve --port 0", "serve --port 0 --workers 2", "demo --port 0", "worker", "indexes"]
)
def test_a_command_names_an_index_that_cannot_be_built(doubled: Settings, tmp_path: Path, command: str) -> None:
    done = portico(*command.split(), env=environment(doubled), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(DOUBLED)
    assert 'dup key: { sku: "twice" }' in done.stderr
    assert done.stderr.count("\n") == 1


def test_serve_with_reload_names_an_index_that_cannot_be_built(doubled: Settings, tmp_path: Path) -> None:
    with started(tmp_path / "run", environment(doubled), "serve", "--port", "0", "--reload") as process:
        eventually(lambda: process.errors.endswith("\n"), 30)
        eventually(lambda: not workers_of(process.pid), 30)

    assert process.errors.startswith(DOUBLED)
    assert process.errors.count("\n") == 1


def test_serve_reports_an_invalid_host_name() -> None:
    with pytest.raises(server.PortTaken, match=r"^cannot listen on ä\.\.b:0: .+\.$"):
        server.bind("ä..b", 0)


SHORT_SECRET = "PORTICO_JWT_SECRET must have 32 bytes or more."


@pytest.mark.parametrize(
    ("command", "changes", "line"),
    [
        ("import products nowhere.jsonl", {}, "nowhere.jsonl: no such file."),
        ("import products .", {}, ".: not a regular file."),
        ("import products /dev/null", {}, "/dev/null: not a regular file."),
        ("schema --check nowhere.graphql", {}, "nowhere.graphql: No such file or directory"),
        ("schema --check .", {}, ".: Is a directory"),
        ("explain nowhere.graphql", {}, "nowhere.graphql: No such file or directory"),
        ("explain .", {}, ".: Is a directory"),
        ("serve --host 192.0.2.1 --port 0", {}, "cannot listen on 192.0.2.1:0: Cannot assign requested address."),
        ("indexes", {"PORTICO_DATABASE": "a.b"}, "MongoDB: database names cannot contain the character '.'"),
        (
            "serve --port 0 --workers 2",
            {"PORTICO_ADMIN_ADDRESS": "127.0.0.1:65535"},
            "PORTICO_ADMIN_ADDRESS is 127.0.0.1:65535, so 2 workers need ports above 65535.",
        ),
        ("serve --port 0 --workers 1", {"PORTICO_JWT_SECRET": "short"}, SHORT_SECRET),
        ("serve --port 0 --workers 2", {"PORTICO_JWT_SECRET": "short"}, SHORT_SECRET),
    ],
)
def test_a_command_names_what_it_cannot_work_with(
    settings: Settings, tmp_path: Path, command: str, changes: dict[str, str], line: str
) -> None:
    assert_one_line(portico(*command.split(), env=environment(settings, **changes), cwd=tmp_path), line)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not a schema: Syntax Error: "),
        (b"type Query", "is not a schema: "),
        (b"\xff\xfe", "is not UTF-8: invalid start byte at byte 0."),
        (b"type A { a: B }", "is not a schema: "),
    ],
)
def test_schema_check_names_a_file_that_is_not_a_schema(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "old.graphql").write_bytes(content)

    done = portico("schema", "--check", "old.graphql", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"portico: old.graphql {problem}")
    assert done.stderr.count("\n") == 1


def test_no_token_can_be_issued_if_an_outside_issuer_is_set(tmp_path: Path) -> None:
    env = environment(PORTICO_JWKS_URL="https://issuer.example/keys", PORTICO_DATA_DIR=str(tmp_path))

    assert_one_line(
        portico("token", "--sub", "a", env=env),
        "There is no secret to sign a token with. Get tokens from the issuer of PORTICO_JWKS_URL, "
        "or set PORTICO_JWT_SECRET.",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("serve", "--port", "70000"),
        ("serve", "--nonsense"),
        ("import", "everything", "x.jsonl"),
        *(("token", "--sub", "a", "--hours", hours) for hours in ("never", "nan", "inf", "1e300", "0")),
        ("token", "--sub", os.fsdecode(b"\xff")),
    ],
)
def test_a_command_with_invalid_arguments_prints_its_usage(arguments: tuple[str, ...]) -> None:
    done = portico(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: portico ")
    assert "Error" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_ends_the_output() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        done = subprocess.run(
            [PORTICO, "schema"], stdout=out, stderr=subprocess.PIPE, text=True, timeout=30, check=False
        )

    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_ctrl_c_ends_a_command_quietly(settings: Settings, tmp_path: Path, command: str) -> None:
    with contextlib.ExitStack() as stack:
        if command == "serve":
            process = stack.enter_context(served(tmp_path, environment(settings))).process
        else:
            process = stack.enter_context(started(tmp_path, environment(settings), command))
            eventually(lambda: "jobs are running" in process.output)
        process.popen.send_signal(signal.SIGINT)
        process.wait()

    assert process.errors == ""
