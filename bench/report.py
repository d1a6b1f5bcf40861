"""Reports the figures: as a table to read, and as JSON to store."""

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from bench import node
from bench.load import Sample
from bench.measure import Samples, Settings, median_of
from bench.peerlist import FLOOR, Peer


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


def ratio(sample: Sample, floor: Sample, name: str) -> float:
    return round(float(getattr(sample, name) / getattr(floor, name)), 3)


def rounded(sample: Sample) -> dict[str, float]:
    return {name: round(value, 3) for name, value in asdict(sample).items()}


def peer_figures(peer: Peer, samples: Samples) -> dict[str, Any]:
    """Return the figures of a peer by connections: medians over the rounds, ratios to the floor, and each round."""
    runs: dict[str, Any] = {}
    for count, taken in samples[peer.name].items():
        sample, floor = median_of(taken), median_of(samples[FLOOR][count])
        runs[str(count)] = {
            **rounded(sample),
            "cpu_ratio": ratio(sample, floor, "cpu_ms"),
            "rate_ratio": ratio(sample, floor, "rate"),
            "rounds": [rounded(one) for one in taken],
        }
    return {"name": peer.name, "versions": peer.versions(), "connections": runs}


def figures(
    peers: list[Peer], samples: Samples, settings: Settings, page: dict[str, Any], skipped: dict[str, str]
) -> dict[str, Any]:
    """Return all figures, with the machine and the settings."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "page": page,
        "settings": asdict(settings),
        "peers": [peer_figures(peer, samples) for peer in peers],
        "skipped": skipped,
    }


def write(path: Path, report: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def table(report: dict[str, Any], count: int) -> Table:
    """Return the table for one number of connections. Every ratio is to the floor."""
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
