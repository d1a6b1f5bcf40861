"""graphql-core's own execution tests, run with compiled plans. They come from the source distribution."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import graphql
import pytest

MODULES = (
    *("abstract", "directives", "error_propagation", "executor", "lists", "mutations", "nonnull", "oneof"),
    *("parallel", "resolve", "schema", "sync", "union_interface", "variables"),
)
# Tests in which a plan may differ from graphql-core, each with the section of the specification or the reason.
OTHERWISE = (
    # Errors of concurrent fields may come in any order. If several errors cause one null, the first is enough
    # (section 6.4.4).
    "describe_nulls_a_complex_tree_of_nullable_fields_each and throws",
    "describe_handles_multiple_errors_for_a_single_response_position",
    # Siblings of a propagated null may be cancelled. A plan cancels a sibling before it starts. graphql-core starts the
    # sibling, or lets it end after the answer.
    "describe_cancel_on_exception",
    "handles_sync_errors_combined_with_async_ones_in_async_context",
    "describe_execute_handles_abrupt_completion_in_synchronous_iterables",
    "handles_mixture_of_sync_and_async_errors_in_async_iterables",
    "calls_aclose_when_non_null_list_item_errors",
    # Interfaces of graphql-core: execute_sync's error for an awaitable, and the directives that it refuses.
    "describe_execute_sync",
    "errors_when_using_original_execute_with_schemas_including_experimental",
    "with_experimental_disable_error_propagation_returns_null",
    # Strawberry's info reads the coerced variables as a plain mapping.
    "provides_info_about_current_execution_state",
)
# The comparison counts only if plans ran at least this many operations.
AT_LEAST = 250


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of graphql-core's source distribution, which contains its tests."""
    folder = tmp_path_factory.mktemp("graphql-core")
    wanted = f"graphql-core=={graphql.__version__}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        "graphql-core",
        "-d",
        str(folder),
        wanted,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"the source distribution of {wanted} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


def test_plans_pass_the_tests_of_the_reference(cases: Path, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    report = tmp_path / "report.json"
    plugins = ("-p", "plans_plugin", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider")
    files = [f"tests/execution/test_{module}.py" for module in MODULES]
    left_out = " or ".join(f"({name})" for name in OTHERWISE)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-c", str(tmp_path / "pytest.ini"), "--rootdir", str(cases)),
        *plugins,
        *("-k", f"not ({left_out})"),
        *files,
    ]
    done = subprocess.run(
        command,
        cwd=cases,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "reference"), "PLANS_REPORT": str(report)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stdout[-5_000:]
    assert json.loads(report.read_text())["plans"] >= AT_LEAST
