"""`python -m bench.docs`: write the stored figures into the pages of docs.

A block of a page between `<!-- figures of NAME -->` and `<!-- end of figures -->` is generated from the results of
that name. It says on which commit they were measured, and whether much of what they measure has changed since.
"""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from bench.origins import LEAST_LIKENESS, RESULTS, likeness, sketch, sources, stored
from bench.peerlist import ROOT

PAGES = ROOT / "docs"
_BLOCK = re.compile(r"(<!-- figures of (?P<name>\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_WIDTH = 120
# So many of the worst operations are in the table.
_WORST = 25
# So many causes of runs in vain are listed.
_CAUSES = 8
# The two sides of `bench.writes`.
_SIDES = ("portico", "transaction")
_PACKAGES = {
    "graphql-core": "graphql-core",
    "strawberry-graphql": "strawberry",
    "pymongo": "PyMongo",
    "mercurius": "mercurius",
    "graphql-jit": "graphql-jit",
}


def written(page: str) -> str:
    """Return the page with its blocks made anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{block(found['name'])}\n\n{found[3]}", page)


def block(name: str) -> str:
    """Return the text of a block."""
    if not (RESULTS / f"{name}.json").exists():
        return f"Not measured yet with `python -m bench.{name}`."
    return _TABLES.get(name, _origin)(name, stored(name))


def _origin(name: str, figures: dict[str, Any], settings: str = "") -> str:
    """Return what the figures were measured on, and with what."""
    command = "python -m bench" if name == "page" else f"python -m bench.{name}"
    load = figures["machine"]["load_average"][0] if "machine" in figures else None
    shown = "" if load is None else f", at a load average of {load}"
    when = f"Measured on {figures['date'][:10]} at commit `{figures['commit']}` with `{command}`"
    text = textwrap.fill(f"{when}{settings}{shown}. {_machine(figures) if 'page' in figures else ''}", _WIDTH)
    if likeness(figures["sources"], sketch(sources(name))) < LEAST_LIKENESS:
        text += "\n**Much of the measured code has changed since, so the figures are out of date.**"
    return text


def _page(name: str, figures: dict[str, Any]) -> str:
    settings, peers = figures["settings"], figures["peers"]
    tables = []
    for count in map(str, settings["connections"]):
        heading = f"| {count} connection{'s' if count != '1' else ''} | CPU ms a request | ratio | in the kernel |"
        lines = [f"{heading} requests a second | p50 ms | p99 ms |", "|---|---|---|---|---|---|---|"]
        for peer in sorted(peers, key=lambda peer: peer["connections"][count]["cpu_ms"]):
            run = peer["connections"][count]
            kernel = f"{run['kernel']:.0%}".replace("%", " %") if "kernel" in run else ""
            cells = (f"{run['cpu_ms']:.2f}", f"{run['cpu_ratio']:.2f}", kernel, f"{run['rate']:.0f}")
            lines.append(f"| {' | '.join((peer['name'], *cells, *_latencies(run)))} |")
        tables.append("\n".join(lines))
    requests = f"{settings['requests']:,} requests, and twice as many at 16 connections"
    return "\n\n".join([*tables, _origin(name, figures, f": the medians of {settings['rounds']} rounds of {requests}")])


def _latencies(run: dict[str, Any]) -> tuple[str, str]:
    return f"{run['p50_ms']:.1f}", f"{run['p99_ms']:.1f}"


def _machine(figures: dict[str, Any]) -> str:
    host = figures["machine"]
    versions = {name: version for peer in figures["peers"] for name, version in peer["versions"].items()}
    shown = [f"{title} {versions[name]}" for name, title in _PACKAGES.items() if name in versions]
    programs = [f"Python {host['python']}", *shown, f"Node.js {host['node']}", f"MongoDB {figures['page']['mongodb']}"]
    return f"{host['cpu']}, {host['cores']} cores. {', '.join(programs)}."


def _operations(name: str, figures: dict[str, Any]) -> str:
    lines = ["| | compiled ms | reference ms | ratio |", "|---|---|---|---|"]
    for row in figures["operations"]:
        times = " | ".join(f"{row[column]:.2f}" for column in ("compiled", "reference", "ratio"))
        lines.append(f"| {row['operation']} | {times} |")
    return "\n".join([*lines, "", _origin(name, figures)])


def _worst(name: str, figures: dict[str, Any]) -> str:
    heads = ("caller", "parts", "gateway CPU s", "mongod CPU s", "commands", "index keys", "documents")
    lines = [f"| operation | {' | '.join(heads)} |", f"|{'---|' * (1 + len(heads))}"]
    for row in figures["operations"][:_WORST]:
        times = (f"{row['gateway']:.2f}", f"{row['mongod']:.2f}")
        counts = (f"{row[column]:,}" for column in ("commands", "keys", "documents"))
        caller = row["caller"] if row["caller"].islower() else f"`{row['caller']}`"
        cells = (row["operation"], caller, f"{row['times']:,}", *times, *counts)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _origin(name, figures)])


def _writes(name: str, figures: dict[str, Any]) -> str:
    tables = []
    for clients in dict.fromkeys(row["clients"] for row in figures["writes"]):
        title = "one client" if clients == 1 else f"{clients} clients at one document"
        heads = ("p50 ms", "ratio", "p99 ms", "a second", "CPU ms", "commands")
        lines = [f"| {title} | {' | '.join(heads)} |", f"|{'---|' * (1 + len(heads))}"]
        for row in (row for row in figures["writes"] if row["clients"] == clients):
            both = [{**row[who], "cpu": row[who]["client_cpu_ms"] + row[who]["mongod_cpu_ms"]} for who in _SIDES]
            p50, *others = (
                " / ".join(f"{side[column]:,.1f}" for side in both)
                for column in ("p50_ms", "p99_ms", "rate", "cpu", "commands")
            )
            ratio = f"{row['ratio']:.2f}"
            lines.append(f"| {' | '.join((row['write'], p50, ratio, *others))} |")
        tables.append("\n".join(lines))
    if kept := figures.get("kept"):
        parts = ", ".join(f"{who} {part:.0%}" for who, part in kept.items()).replace("%", " %")
        tables.append(f"What the rate of transfers between any accounts becomes by Zipf: {parts}.")
    return "\n\n".join([*tables, _origin(name, figures)])


def _precision(name: str, figures: dict[str, Any]) -> str:
    lines = ["| query | page | runs | in vain |", "|---|---|---|---|"]
    lines += [
        f"| `{row['query']}` | [{row['page']}]({row['page']}) | {row['runs']:,} | {row['in_vain']:,} |"
        for row in figures["queries"]
        if row["runs"]
    ]
    for title, part in (("**all queries**", figures), ("**those without lists**", figures["without_lists"])):
        share = f"**{part['precision']:.1%}** gave another answer".replace("%", " %")
        lines.append(f"| {title} | {share} | {part['runs']:,} | {part['in_vain']:,} |")
    settings = f": {figures['writes']:,} writes, after which {figures['checks']:,} parts of queries were read again"
    causes = [f"* {count:,}: {cause}" for cause, count in list(figures["causes"].items())[:_CAUSES]]
    shown = ["", "Most runs in vain are caused by:", "", *causes] if causes else []
    return "\n".join([*lines, *shown, "", _origin(name, figures, settings)])


def _profile(name: str, figures: dict[str, Any]) -> str:
    lines = [
        "| part | share |",
        "|---|---|",
        *(f"| {part} | {share:.1%} |" for part, share in figures["shares"].items()),
    ]
    return "\n".join([*(line.replace("%", " %") for line in lines), "", _origin(name, figures)])


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    first, *others = (f"| {' | '.join(map(_shown, line))} |" for line in (heads, *rows))
    return "\n".join([first, f"|{'---|' * (first.count(' | ') + 1)}", *others])


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)


def _cached(name: str, figures: dict[str, Any]) -> str:
    tables = []
    for key, title in (("http", "over HTTP, of the floor"), ("process", "without a network, of a run")):
        counts = [count for count in figures[key][0] if count.isdigit()]
        heads = [title, *(f"{head} at {count}" for count in counts for head in ("CPU ms", "ratio"))]
        rows = [
            [row["answer"], *(f"{row[count][column]:.2f}" for count in counts for column in ("cpu_ms", "ratio"))]
            for row in figures[key]
        ]
        if key == "process":
            heads += ["instructions", "ratio"]
            rows = [[*cells, row["steps"], row["steps_ratio"]] for cells, row in zip(rows, figures[key], strict=True)]
        tables.append(_table(heads, rows))
    return "\n\n".join([*tables, _origin(name, figures)])


def _live(name: str, figures: dict[str, Any]) -> str:
    columns = {
        "live": {
            "live queries": "clients",
            "first answers s": "start_s",
            "memory MB": "memory_mb",
            "commands at rest": "commands_at_rest",
            "a change µs": "matching_us",
        },
        "polling": {"polling clients": "clients", "refused": "refused"},
    }
    common = {"p50 ms": "p50_ms", "p99 ms": "p99_ms", "commits": "commits", "shown": "answered", "cores": "cpu"}
    tables = []
    for kind, own in columns.items():
        shown = {**own, **common}
        rows = [[row[column] for column in shown.values()] for row in figures["rows"] if row["kind"] == kind]
        tables.append(_table(shown, rows))
    settings = f": {figures['rate']} commits a second, for {figures['seconds']:.0f} s"
    return "\n\n".join([*tables, _origin(name, figures, settings)])


def _reconnects(name: str, figures: dict[str, Any]) -> str:
    heads = ("subscribers", f"s until all have {figures['missed']} missed events", "change streams", "runs")
    return "\n\n".join([_table(heads, (row.values() for row in figures["rows"])), _origin(name, figures)])


_TABLES: Mapping[str, Callable[[str, dict[str, Any]], str]] = {
    "cached": _cached,
    "live": _live,
    "operations": _operations,
    "page": _page,
    "precision": _precision,
    "profile": _profile,
    "reconnects": _reconnects,
    "worst": _worst,
    "writes": _writes,
}


def main(folder: Path = PAGES) -> None:
    """Write the stored figures into the pages of a folder."""
    for page in sorted(folder.glob("*.md")):
        before = page.read_text()
        after = written(before)
        if after != before:
            page.write_text(after)
            Console().print(f"{page.name} has new figures.")


if __name__ == "__main__":
    typer.run(main)
