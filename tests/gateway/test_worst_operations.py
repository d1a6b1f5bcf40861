"""The worst operations of `python -m bench.worst` are as large as the default limits allow."""

from __future__ import annotations

from bench import worst
from tests.support.harness import GatewayClient


async def test_an_operation_is_as_large_as_the_limits_allow(gateway: GatewayClient) -> None:
    operation = worst.Operation("a%n: products(first: 100) { nodes { title } }")

    times = worst.most(gateway, operation)

    assert (await gateway.ask(operation.text(times), token=None)).codes == []
    assert (await gateway.ask(operation.text(times + 1), token=None)).codes == ["OPERATION_TOO_COMPLEX"]
