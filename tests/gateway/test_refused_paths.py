"""All paths refuse requests in one form: JSON with `errors`, as `/graphql` does."""

from __future__ import annotations

import re

import pytest

from tests.support.domains import DOMAINS
from tests.support.harness import GatewayClient

# The paths of domains, each with names that nothing has.
OF_DOMAINS = [
    re.sub(r"{.*?}", "nothing", route.path)
    for domain in DOMAINS.all
    if domain.routes
    for route in domain.routes(lambda: None)
]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/graphq", 404, "NOT_FOUND"),
        ("POST", "/graphql/x", 404, "NOT_FOUND"),
        ("GET", "/graphql/ticket", 405, "METHOD_NOT_ALLOWED"),
        ("DELETE", "/livez", 405, "METHOD_NOT_ALLOWED"),
        *(("GET", path, 404, "NOT_FOUND") for path in OF_DOMAINS),
        *(("POST", path, 405, "METHOD_NOT_ALLOWED") for path in OF_DOMAINS),
    ],
)
async def test_another_path_or_method_is_refused_in_json(
    reader: GatewayClient, method: str, path: str, status: int, code: str
) -> None:
    response = await reader.http.request(method, path)

    assert (response.status_code, response.headers["cache-control"]) == (status, "no-store")
    assert [error["extensions"]["code"] for error in response.json()["errors"]] == [code]
    assert ("allow" in response.headers) == (status == 405)


def test_each_domain_with_paths_is_tried() -> None:
    assert len(OF_DOMAINS) >= 5
