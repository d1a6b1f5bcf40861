"""`python -m bench.documents`: measure trusted documents, and the bytes of responses.

The documents are operations of the examples in GraphiQL, with an alias that makes each of them different. Processes
that make an executor with and without them tell how long it takes and how much memory it needs. A demo with the same
documents then answers over HTTP: each document once, then all of them again and again.
"""

import hashlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from graphql import OperationDefinitionNode, OperationType, parse, print_ast
from graphql.utilities import separate_operations
from rich.console import Console
from rich.table import Table

from bench.peerlist import ROOT
from bench.processes import HOST, free_port, share_out, spawn, stop
from portico.gateway.domains import BUILT_IN, load

_ENCODINGS = ("identity", "gzip", "zstd", "br")
_FIRST_LINE = re.compile(r"^(?:query|mutation|\{).*\{$|^\{$", re.MULTILINE)
_SECONDS_TO_START = 300
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
# What a page of a frontend asks for.
_ANSWERS = {
    "20 products": "{ products(first: 20) { nodes { id sku title pricing { retail { amount currency } } "
    "categories { id name slug breadcrumbs { id name slug } } } pageInfo { hasNextPage endCursor } } }",
    "3 products": "{ products(first: 3) { nodes { id sku title pricing { retail { amount currency } } } } }",
    "the types of the schema": "{ __schema { types { kind name description fields { name description } } } }",
}
# Run in a process of its own: prints the CPU seconds and the bytes that an executor with the documents of a file takes.
_MAKING = """
import gc, json, sys, time
from dataclasses import replace
from pathlib import Path
from portico.gateway.domains import BUILT_IN, load, schema_of
from portico.gateway.operations.execution import Executor
from portico.gateway.settings import Settings

def resident():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096

settings = Settings()
schema = schema_of(load(BUILT_IN))
Executor(schema, settings)
bytes_, start = resident(), time.process_time()
kept = Executor(schema, replace(settings, document_files=sys.argv[1]))
seconds = time.process_time() - start
print(json.dumps({"seconds": seconds, "bytes": resident() - bytes_, "documents": len(kept.operations.trusted)}))
"""
console = Console()


def examples() -> Iterator[tuple[str, bool]]:
    """Yield the texts of the queries and mutations of the examples, and whether each is a query without variables."""
    for domain in load(BUILT_IN).all:
        for _, path in domain.examples:
            for document in separate_operations(parse(path.read_text())).values():
                (operation,) = (one for one in document.definitions if isinstance(one, OperationDefinitionNode))
                if operation.operation is not OperationType.SUBSCRIPTION:
                    is_query = operation.operation is OperationType.QUERY
                    yield print_ast(document), is_query and not operation.variable_definitions


def manifest(count: int) -> tuple[dict[str, str], list[str]]:
    """Return different documents by their ids, and the ids of those that are queries without variables."""
    operations = list(examples())
    texts, plain = {}, []
    for number in range(count):
        text, is_plain = operations[number % len(operations)]
        own = _FIRST_LINE.sub(rf"\g<0> own{number}: __typename", text, count=1)
        key = hashlib.sha256(own.encode()).hexdigest()
        texts[key] = own
        if is_plain:
            plain.append(key)
    return texts, plain


@contextmanager
def demo(folder: Path, core: int | None, documents: Path) -> Iterator[int]:
    """Serve the demo with these documents, and yield its port."""
    port = free_port()
    env = {**os.environ, "PORTICO_DATA_DIR": str(folder / "data"), "PORTICO_DOCUMENT_FILES": str(documents)}
    command = [str(Path(sys.executable).parent / "portico"), "demo", "--port", str(port)]
    with (folder / "demo.log").open("wb") as output:
        process = spawn(command, core, env=env, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + _SECONDS_TO_START
        while "Portico is at" not in (folder / "demo.log").read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                message = f"the demo did not start:\n{(folder / 'demo.log').read_text(errors='replace')[-2_000:]}"
                raise RuntimeError(message)
            time.sleep(0.1)
        time.sleep(2)
        yield port
    finally:
        stop(process)


def took(connection: http.client.HTTPConnection, body: dict[str, Any]) -> float:
    """Send a request. Return the milliseconds until the whole answer has arrived."""
    content = json.dumps(body)
    start = time.perf_counter()
    connection.request("POST", "/graphql", content, _HEADERS)
    answer = connection.getresponse().read()
    milliseconds = (time.perf_counter() - start) * 1_000
    if b'"errors"' in answer:
        raise RuntimeError(answer[:300])
    return milliseconds


def calls(port: int, texts: dict[str, str], plain: list[str], rounds: int) -> dict[str, float]:
    """Return the medians of the milliseconds of first and later calls, by their ids and by a text."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("GET", "/graphiql/config.json")
    _HEADERS["Authorization"] = json.loads(connection.getresponse().read())["headers"]["authorization"]
    warm, measured = plain[:20], plain[20:]
    for _ in range(50):
        for key in warm:
            took(connection, {"documentId": key})
    first = [took(connection, {"documentId": key}) for key in measured]
    later: dict[str, list[float]] = {key: [] for key in measured}
    for _ in range(rounds):
        for key in measured:
            later[key].append(took(connection, {"documentId": key}))
    last = [statistics.median(found[-10:]) for found in later.values()]
    # A space at the end makes another text.
    as_text = [took(connection, {"query": f"{texts[key]} "}) for key in measured]
    connection.close()
    return {
        "first call of a trusted document": statistics.median(first),
        f"calls up to the {rounds:,}th": statistics.median(last),
        "first call of a text": statistics.median(as_text),
    }


def sizes(port: int) -> dict[str, list[int]]:
    """Return the bytes of the bodies of the answers, in each encoding."""
    found = {}
    for name, text in _ANSWERS.items():
        connection = http.client.HTTPConnection(HOST, port, timeout=30)
        lengths = []
        for encoding in _ENCODINGS:
            connection.request(
                "POST", "/graphql", json.dumps({"query": text}), {**_HEADERS, "Accept-Encoding": encoding}
            )
            lengths.append(len(connection.getresponse().read()))
        found[name] = lengths
        connection.close()
    return found


def main(
    count: Annotated[int, typer.Option(min=100, help="The number of documents.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=20, help="Later calls of each document.")] = 1_000,
    most: Annotated[int, typer.Option(min=10, help="The number of documents that are called.")] = 60,
) -> None:
    """Measure trusted documents, and the bytes of responses."""
    texts, plain = manifest(count)
    cores = share_out()
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as name:
        folder = Path(name)
        path = folder / "documents.json"
        path.write_text(json.dumps(texts))
        making = [sys.executable, "-c", _MAKING, str(path)]
        made = [
            json.loads(subprocess.run(making, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
            for _ in range(3)
        ]
        with demo(folder, cores.server, path) as port:
            milliseconds = calls(port, texts, plain[: 20 + most], rounds)
            lengths = sizes(port)
    seconds, memory = (statistics.median(one[key] for one in made) for key in ("seconds", "bytes"))
    console.print(
        f"{made[0]['documents']:,} documents are ready in {seconds:.2f} s of CPU, and take {memory / 1e6:.0f} MB."
    )
    table = Table("call", "p50 ms", "ratio")
    floor = list(milliseconds.values())[1]
    for call, one in milliseconds.items():
        table.add_row(call, f"{one:.2f}", f"{one / floor:.2f}")
    console.print(table)
    table = Table("answer", *_ENCODINGS)
    for answer, row in lengths.items():
        table.add_row(answer, *(f"{length:,}" for length in row))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
