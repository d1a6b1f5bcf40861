"""A gateway with several workers serves, however long their start takes."""

from __future__ import annotations

from pathlib import Path

from uvicorn import Config

from portico.gateway.settings import Settings
from tests.support.processes import environment, served

# Python imports this module first. Only workers have the argument.
SLOW_WORKERS = """
import sys, time
if "--multiprocessing-fork" in sys.argv:
    time.sleep({seconds})
"""
# The parent asks one worker after the other, so the second one has twice as long.
PATIENCE = 2 * Config("").timeout_worker_healthcheck


def test_workers_that_start_more_slowly_than_a_serving_worker_may_answer(settings: Settings, tmp_path: Path) -> None:
    """On a busy machine, seconds pass before a worker can tell that it lives."""
    (tmp_path / "sitecustomize.py").write_text(SLOW_WORKERS.format(seconds=PATIENCE + 2))
    env = {**environment(settings), "PYTHONPATH": str(tmp_path)}
    with served(tmp_path / "served", env, "--workers", "2", is_new=True) as gateway:
        assert gateway.ask("{ __typename }").json() == {"data": {"__typename": "Query"}}
