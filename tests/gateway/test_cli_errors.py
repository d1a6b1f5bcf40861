"""What can go wrong around a command ends it with one line that says what, and with status 1."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from portico.gateway.cli import server
from portico.gateway.settings import Settings
from tests.support.processes import PORTICO, environment, eventually, portico, served, started


def assert_one_line(done: subprocess.CompletedProcess[str], line: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"portico: {line}\n"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("PORTICO_MAX_COST", "many", "PORTICO_MAX_COST must be a number above zero; got 'many'."),
        ("PORTICO_EXECUTOR", "foo", "PORTICO_EXECUTOR must be one of compiled, reference; got 'foo'."),
        ("PORTICO_DEMO", "perhaps", "PORTICO_DEMO must be true or false; got 'perhaps'."),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(name: str, value: str, line: str) -> None:
    assert_one_line(portico("indexes", env=environment() | {name: value}), line)


def test_a_setting_that_is_misspelt_is_told_of(settings: Settings) -> None:
    done = portico("token", "--sub", "a", env=environment(settings, PORTICO_DATABSE="x"))

    assert done.returncode == 0
    assert done.stderr == "portico: there is no setting PORTICO_DATABSE. Did you mean PORTICO_DATABASE?\n"


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("http://host/", "Invalid URI scheme"),
        ("mongodb://", "at least one hostname"),
        ("mongodb://host:port/", "Port"),
    ],
)
def test_a_uri_that_cannot_be_used_is_told(tmp_path: Path, uri: str, told: str) -> None:
    done = portico("indexes", env=environment(PORTICO_MONGODB_URI=uri), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("portico: ")
    assert told.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_a_database_name_that_cannot_be_used_is_told(settings: Settings) -> None:
    done = portico("indexes", env=environment(settings, PORTICO_DATABASE="a.b"))

    assert_one_line(done, "MongoDB: database names cannot contain the character '.'")


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_mongodb_that_cannot_be_reached_is_told(free_tcp_port: int, command: str, tmp_path: Path) -> None:
    secret = "mongodb://user:password@127.0.0.1"
    env = environment(PORTICO_MONGODB_URI=f"{secret}:{free_tcp_port}/", PORTICO_DATA_DIR=str(tmp_path))

    done = portico(command, env=env)

    assert done.returncode == 1
    assert done.stderr.startswith(f"portico: MongoDB: 127.0.0.1:{free_tcp_port}: ")
    assert done.stderr.count("\n") == 1
    assert "password" not in done.stderr


def test_a_port_that_is_taken_is_told(settings: Settings, taken: int) -> None:
    done = portico("serve", "--port", str(taken), env=environment(settings))

    assert_one_line(done, f"cannot listen on 127.0.0.1:{taken}: Address already in use.")


def test_an_address_that_is_not_this_machines_is_told(settings: Settings) -> None:
    done = portico("serve", "--host", "192.0.2.1", "--port", "0", env=environment(settings))

    assert_one_line(done, "cannot listen on 192.0.2.1:0: Cannot assign requested address.")


def test_a_name_that_can_be_that_of_no_host_is_told() -> None:
    with pytest.raises(server.PortTaken, match=r"^cannot listen on ä\.\.b:0: .+\.$"):
        server.bind("ä..b", 0)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_secret_that_is_too_short_ends_a_gateway_before_it_begins(settings: Settings, workers: str) -> None:
    env = environment(settings, PORTICO_JWT_SECRET="short")

    done = portico("serve", "--port", "0", "--workers", workers, env=env, timeout=30)

    assert_one_line(done, "PORTICO_JWT_SECRET must have 32 bytes or more.")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("import", "products", "nowhere.jsonl"), "nowhere.jsonl: no such file."),
        (("import", "products", "."), ".: no such file."),
        (("schema", "--check", "nowhere.graphql"), "nowhere.graphql: No such file or directory"),
        (("schema", "--check", "."), ".: Is a directory"),
        (("explain", "nowhere.graphql"), "nowhere.graphql: No such file or directory"),
        (("explain", "."), ".: Is a directory"),
    ],
)
def test_a_file_that_is_not_there_is_named(
    settings: Settings, tmp_path: Path, arguments: tuple[str, ...], line: str
) -> None:
    assert_one_line(portico(*arguments, env=environment(settings), cwd=tmp_path), line)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not a schema: Syntax Error: "),
        (b"type Query", "is not a schema: "),
        (b"\xff\xfe", "is not UTF-8: invalid start byte at byte 0."),
        (b"type A { a: B }", "is not a schema: "),
    ],
)
def test_a_file_that_is_no_schema_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "old.graphql").write_bytes(content)

    done = portico("schema", "--check", "old.graphql", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"portico: old.graphql {problem}")
    assert done.stderr.count("\n") == 1


def test_a_token_cannot_be_made_where_another_issues_them(tmp_path: Path) -> None:
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
        ("token", "--sub", "a", "--hours", "never"),
        ("token", "--sub", os.fsdecode(b"\xff")),
    ],
)
def test_a_command_that_is_called_wrongly_tells_how_it_is_called(arguments: tuple[str, ...]) -> None:
    done = portico(*arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: portico ")
    assert "Error" in done.stderr
    assert "Traceback" not in done.stderr


def test_who_stops_reading_stops_the_writing() -> None:
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
    if command == "serve":
        with served(tmp_path, environment(settings)) as gateway:
            gateway.process.popen.send_signal(signal.SIGINT)
            gateway.process.wait()
            errors = gateway.process.errors
    else:
        with started(tmp_path, environment(settings), command) as worker:
            eventually(lambda: "jobs are running" in worker.output)
            worker.popen.send_signal(signal.SIGINT)
            worker.wait()
            errors = worker.errors

    assert "Traceback" not in errors
