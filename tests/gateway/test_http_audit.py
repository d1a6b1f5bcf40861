"""The gateway passes the GraphQL-over-HTTP audit of the library `graphql-http`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from portico.gateway.settings import Settings
from tests.support.processes import TESTS, environment, node_modules, run_node, served


def test_every_audit_of_the_specification_passes(settings: Settings, tmp_path: Path) -> None:
    project = node_modules("audit")

    with served(tmp_path, environment(settings)) as gateway:
        done = run_node(project, "audit.mjs", gateway.graphql)

    assert done.returncode == 0, done.stderr
    audits = json.loads(done.stdout)
    assert [audit for audit in audits if audit["status"] != "ok"] == []
    assert Counter(audit["name"].split()[0] for audit in audits) == {"MUST": 13, "SHOULD": 23, "MAY": 25}


def test_lock_files_name_no_registry() -> None:
    locks = [TESTS / folder / "package-lock.json" for folder in ("audit", "browser", "interop")]
    locks.append(TESTS.parent / "gateway" / "pages" / "graphiql" / "package-lock.json")
    for lock in locks:
        assert "resolved" not in lock.read_text(), lock
        assert "://" not in lock.read_text(), lock
