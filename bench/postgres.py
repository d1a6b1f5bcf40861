"""A witness for `bench.writes`: transfers in PostgreSQL, each as one transaction that is repeated after conflicts.

`pgbench` of Debian's package `postgresql` sends them. An account that everybody pays is not worse for MongoDB than for
others: the witness shows what PostgreSQL keeps of its rate. It is left out where PostgreSQL is not installed.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.processes import Cores, spawn, stop

ACCOUNTS = 100
# The exponent of the Zipf distribution: of the accounts, the first one is in a third of the transfers or more.
ZIPF = 1.5
_SECONDS_TO_START = 30
_PLENTY = 1_000_000_000
# The server refuses to run as root.
_USER = "postgres"
_TABLES = """
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE transfers (id bigserial PRIMARY KEY, source int, destination int, amount bigint, created timestamptz);
INSERT INTO accounts SELECT id, :plenty FROM generate_series(1, :accounts) AS id;
"""
# Twice the same account becomes an account and the next one, as in `write_cases`. The transactions have the default
# isolation, which is enough for updates with a guard, and lock the accounts in one order, so that no two deadlock.
_TRANSFER = """
\\set source DRAW
\\set destination DRAW
\\if :source = :destination
\\set destination :source % :accounts + 1
\\endif
\\set first least(:source, :destination)
\\set second greatest(:source, :destination)
BEGIN;
UPDATE accounts SET balance = balance + CASE id WHEN :source THEN -1 ELSE 1 END
WHERE id = :first AND (id <> :source OR balance >= 1);
UPDATE accounts SET balance = balance + CASE id WHEN :source THEN -1 ELSE 1 END
WHERE id = :second AND (id <> :source OR balance >= 1);
INSERT INTO transfers (source, destination, amount, created) VALUES (:source, :destination, 1, now());
COMMIT;
"""
_DRAWS = {"even": "random(1, :accounts)", "Zipf": f"random_zipfian(1, :accounts, {ZIPF})"}
_VARIABLE = f"accounts={ACCOUNTS}"
_RATE = re.compile(r"tps = ([0-9.]+)")


def programs() -> Path | None:
    """Return the folder with the programs of PostgreSQL; None if it is not installed."""
    found = shutil.which("initdb") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
    folder = None if found is None else Path(found).resolve().parent
    return folder if folder is not None and (folder / "pgbench").exists() else None


def rates(cores: Cores, clients: int, seconds: int) -> dict[str, float] | None:
    """Return the transfers in a second, even and by Zipf; None without PostgreSQL.

    Raise RuntimeError if money is lost.
    """
    folder = programs()
    if folder is None or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        return None
    with _running(folder, cores.server) as (socket, port):
        asked = ("-h", str(socket), "-p", str(port), "-U", _USER, _USER)
        tables = socket / "tables.sql"
        tables.write_text(_TABLES)
        _run([str(folder / "psql"), "-q", "-v", f"plenty={_PLENTY}", "-v", _VARIABLE, "-f", str(tables), *asked])
        found = {name: _rate(folder, socket, asked, draw, clients, seconds) for name, draw in _DRAWS.items()}
        held = _run([str(folder / "psql"), "-qtA", "-c", "SELECT sum(balance) FROM accounts", *asked])
        if int(held) != ACCOUNTS * _PLENTY:
            message = f"the accounts hold {held.strip()}"
            raise RuntimeError(message)
        return found


def _rate(folder: Path, socket: Path, asked: Sequence[str], draw: str, clients: int, seconds: int) -> float:
    script = socket / "transfer.sql"
    script.write_text(_TRANSFER.replace("DRAW", draw))
    # Without a bound, a transaction is repeated until it commits.
    options = ["-n", "-D", _VARIABLE, "-f", str(script), "-c", str(clients), "-T", str(seconds), "--max-tries=0"]
    found = _RATE.search(_run([str(folder / "pgbench"), *options, *asked]))
    if found is None:
        message = "pgbench printed no rate"
        raise RuntimeError(message)
    return round(float(found[1]), 1)


@contextmanager
def _running(folder: Path, core: int | None) -> Iterator[tuple[Path, int]]:
    """Start a server with an empty database, as durable as by default. Yield the folder of its socket, and its port."""
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as temporary:
        data, socket, port = Path(temporary) / "data", Path(temporary), 5432
        _give(socket)
        initialized = [str(folder / "initdb"), "-D", str(data), "-U", _USER, "-A", "trust", "--no-instructions"]
        _run(_as_user(initialized))
        options = ["-D", str(data), "-k", str(socket), "-p", str(port), "-h", "", "-c", "max_connections=200"]
        server = spawn(
            _as_user([str(folder / "postgres"), *options]), core, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait(folder, socket, port)
            yield socket, port
        finally:
            stop(server)


def _wait(folder: Path, socket: Path, port: int) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    ready = [str(folder / "pg_isready"), "-q", "-h", str(socket), "-p", str(port)]
    while subprocess.run(ready, check=False).returncode:
        if time.monotonic() > deadline:
            message = "PostgreSQL did not start"
            raise RuntimeError(message)
        time.sleep(0.1)


def _give(folder: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(folder, _USER, _USER)


def _as_user(command: list[str]) -> list[str]:
    """Return the command as another user, if this one is root."""
    own = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
    return [*own, *command] if os.geteuid() == 0 else command


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
