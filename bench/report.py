"""Reports the figures: as a table to read, and as JSON to store."""

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import orjson
import typer
from pymongo.errors import PyMongoError
from rich.console import Console
from rich.table import Table

from bench import node, origins
from bench.load import Sample
from bench.measure import Samples, Settings, median_of
from bench.peerlist import FLOOR, Peer

# What ends a measurement with one line.
ERRORS = (RuntimeError, ValueError, TimeoutError, PyMongoError, subprocess.SubprocessError, httpx.HTTPError)


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def machine() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "node": (node.version() or "none").removeprefix("v"),
        # If it is far above the number of busy cores, other work disturbed the figures.
        "load_average": [round(value, 2) for value in os.getloadavg()],
    }


def measured(**figures: Any) -> dict[str, Any]:
    """Return the figures with the time and the machine."""
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), **figures}


def ratio(samples: list[Sample], floor: list[Sample], name: str) -> float:
    """Return the median of the rounds' ratios to the floor, which took turns with the peer in the same round."""
    pairs = zip(samples, floor, strict=True)
    return round(median(float(getattr(one, name) / getattr(other, name)) for one, other in pairs), 3)


def rounded(sample: Sample) -> dict[str, float]:
    return {name: round(value, 3) for name, value in asdict(sample).items()}


def peer_figures(peer: Peer, samples: Samples) -> dict[str, Any]:
    """Return the figures of a peer by connections: medians over the rounds, ratios to the floor, and each round."""
    runs: dict[str, Any] = {}
    for count, taken in samples[peer.name].items():
        floor = samples[FLOOR][count]
        runs[str(count)] = {
            **rounded(median_of(taken)),
            "cpu_ratio": ratio(taken, floor, "cpu_ms"),
            "rate_ratio": ratio(taken, floor, "rate"),
            "rounds": [rounded(one) for one in taken],
        }
    return {"name": peer.name, "versions": peer.versions(), "connections": runs}


def figures(
    peers: list[Peer], samples: Samples, settings: Settings, page: dict[str, Any], skipped: dict[str, str]
) -> dict[str, Any]:
    """Return all figures, with the machine and the settings."""
    return measured(
        page=page,
        settings=asdict(settings),
        peers=[peer_figures(peer, samples) for peer in peers],
        skipped=skipped,
    )


def write(path: Path, report: dict[str, Any]) -> None:
    """Store figures, with the commit and a sketch of the sources that they measure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {**report, **(origins.origin(path.stem) if path.stem in origins.MEASURED else {})}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    path.write_bytes(orjson.dumps(stored, option=options))


def publish(measure: Callable[[], dict[str, Any]], target: Path | None, show: Callable[[dict[str, Any]], None]) -> None:
    """Measure, store the figures in the file, if any, and show them. End the process if they cannot be measured."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the child processes, too
    try:
        result = measure()
    except ERRORS as error:
        Console().print(str(error) or repr(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from error
    if target is not None:
        write(target, result)
    show(result)


def show_place(console: Console, report: dict[str, Any]) -> None:
    """Print where and when the figures were measured."""
    host = report["machine"]
    mongodb = f", MongoDB {report['mongodb']}" if "mongodb" in report else ""
    console.print(f"{host['cpu']}, {host['cores']} cores, Python {host['python']}{mongodb}")
    console.print(f"load average {host['load_average'][0]}, {report['date']}")


def show_tables(console: Console, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Print rows as they are stored, by the title of their table."""
    for title, rows in tables.items():
        result = Table(title=title, title_justify="left")
        for name in rows[0]:
            result.add_column(name, no_wrap=True, justify="left" if name == "case" else "right")
        for row in rows:
            result.add_row(*(f"{value:,}" if isinstance(value, int | float) else str(value) for value in row.values()))
        console.print(result)


def beside(row: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Return these figures of the gateway, of the same by hand, and their ratio: a cell each."""
    cells = []
    for name in names:
        digits = 0 if name == "rate" else 2
        own, other = (f"{row[who][name]:,.{digits}f}" for who in ("portico", "by hand"))
        cells.append(" | ".join([own, other, *([f"{row['ratio'][name]:.2f}"] if name in row["ratio"] else [])]))
    return cells


def table(report: dict[str, Any], count: int) -> Table:
    """Return the table for one number of connections. A ratio is the median of the rounds' ratios to the floor."""
    result = Table(title=f"{count} connection{'s' if count > 1 else ''}", title_justify="left")
    result.add_column("peer")
    for heading in ("CPU ms/request", "ratio", "requests/s", "ratio", "p50 ms", "p99 ms"):
        result.add_column(heading, justify="right")
    for peer in report["peers"]:
        run = peer["connections"][str(count)]
        result.add_row(
            peer["name"],
            f"{run['cpu_ms']:.2f}",
            f"{run['cpu_ratio']:.2f}",
            f"{run['rate']:.0f}",
            f"{run['rate_ratio']:.2f}",
            f"{run['p50_ms']:.2f}",
            f"{run['p99_ms']:.2f}",
        )
    return result


def show(console: Console, report: dict[str, Any]) -> None:
    host, page, settings = report["machine"], report["page"], report["settings"]
    console.print(f"{host['cpu']}, {host['cores']} cores, {host['system']}")
    console.print(f"Python {host['python']}, Node {host['node']}, MongoDB {page['mongodb']}, {report['date']}")
    console.print(f"{page['bytes']} bytes a page, {page['products']} products ({page['origin']})")
    console.print(f"median of {settings['rounds']} rounds, load average {host['load_average'][0]}")
    for count in settings["connections"]:
        console.print(table(report, count))
    for peer in report["peers"]:
        versions = ", ".join(f"{name} {number}" for name, number in peer["versions"].items())
        console.print(f"{peer['name']}: {versions}", style="dim", highlight=False, soft_wrap=True)
    for name, reason in report["skipped"].items():
        console.print(f"skipped {name}: {reason}", style="yellow", highlight=False, soft_wrap=True)
