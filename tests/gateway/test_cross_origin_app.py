"""An Apollo app on a page of another origin works in a browser against `portico demo`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.support.processes import chromium, environment, node_modules, run_node, served
from tests.support.replica_sets import free_ports

# As the app sends it, with `__typename`, because Apollo's manifest has what Apollo Client sends.
TRUSTED = """query Trusted($slug: String!) {
  category(slug: $slug) {
    id
    name
    __typename
  }
}"""


def manifest(folder: Path) -> tuple[Path, str]:
    """Writes a manifest as Apollo's tool does. Returns it with the id of its document."""
    key = hashlib.sha256(TRUSTED.encode()).hexdigest()
    operation = {"id": key, "name": "Trusted", "type": "query", "body": TRUSTED}
    path = folder / "persisted-query-manifest.json"
    path.write_text(json.dumps({"format": "apollo-persisted-query-manifest", "version": 1, "operations": [operation]}))
    return path, key


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("demo")
def test_an_apollo_app_of_another_origin_works_in_a_browser(settings: Settings, tmp_path: Path) -> None:
    browser, project = chromium(), node_modules("interop")
    path, key = manifest(tmp_path)
    (port,) = free_ports(1)
    variables = {"PORTICO_CORS_ORIGINS": f"http://localhost:{port}", "PORTICO_DOCUMENT_FILES": str(path)}

    with served(tmp_path / "demo", environment(settings, **variables), command="demo") as gateway:
        shown = httpx.get(f"{gateway.url}/graphiql/config.json", timeout=20).json()["headers"]["authorization"]
        token = shown.removeprefix("Bearer ")
        opened = gateway.ask(
            'mutation { openDiscussion(input: { subjectId: "UHJvZHVjdDpMUC0wMDAx" }) '
            "{ ... on DiscussionPayload { discussion { id } } } }",
            token,
        ).json()
        given = {
            "url": gateway.graphql,
            "token": token,
            "ids": {"Trusted": key},
            "discussion": opened["data"]["openDiscussion"]["discussion"]["id"],
            "slug": "jazz",
        }
        done = run_node(project, "crossorigin.mjs", browser, str(port), json.dumps(given))

    assert done.returncode == 0, done.stderr[:2_000]
    assert json.loads(done.stdout) == {
        "query": "demo",
        "trusted": "Jazz",
        "mutation": "From afar",
        "subscription": "From afar",
        "refused": {"codes": ["UNAUTHENTICATED"]},
        "names": ["till 1.2"],
        "texts": [False],
        "problems": [],
    }
