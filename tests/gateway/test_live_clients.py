"""Live queries in the clients of other projects, set up as docs/frontend.md says."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, create_product
from tests.support.processes import TESTS, environment, node_modules, served

EXAMPLES = sorted((TESTS / "interop" / "live").glob("*.mjs"))
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_shows_the_code_that_is_tested(example: Path) -> None:
    page = (TESTS.parent / "docs" / "frontend.md").read_text()

    assert f"```js\n{example.read_text()}```\n" in page


@pytest.mark.timeout(120)
async def test_clients_show_each_new_state_of_a_live_query(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    project = node_modules("interop")
    product = await create_product(gateway, title="A")
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    with served(tmp_path / "other", environment(settings)) as other:
        given = [other.graphql, gateway.token("ann", []), product["sku"], "C", *([browser] if browser else [])]
        process = await asyncio.create_subprocess_exec(
            "node", "live.mjs", *given, cwd=project, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        if await process.stdout.readline():
            for title in ("B", "C"):
                edit = {"id": product["id"], "nonce": product["nonce"], "title": title}
                product = (await gateway.result("updateProduct", edit))["product"]
                # Clients may skip a state that lasts less.
                await asyncio.sleep(1.0)
        written, errors = await process.communicate()

    assert process.returncode == 0, errors.decode()
    clients = ["Apollo Client", "urql", "Relay", "EventSource", *(["Chromium"] if browser else [])]
    assert json.loads(written) == {name: ["A", "B", "C"] for name in clients}
