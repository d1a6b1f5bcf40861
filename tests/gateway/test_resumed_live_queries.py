"""Live queries continue after a break, without an answer that their clients have."""

from __future__ import annotations

from typing import Any

from tests.gateway.support.resumed import stream_of
from tests.support.harness import GatewayClient, create_product
from tests.support.sockets import Socket, opened, subscribe, until

CATEGORY = "query ($slug: String!) @live { category(slug: $slug) { name } }"
TITLE = "query ($sku: String!) @live { product(sku: $sku) { title } }"


async def rename(gateway: GatewayClient, product: dict[str, Any], title: str) -> dict[str, Any]:
    edit = {"id": product["id"], "nonce": product["nonce"], "title": title}
    found: dict[str, Any] = (await gateway.result("updateProduct", edit))["product"]
    return found


def runs(gateway: GatewayClient) -> int:
    return gateway.state.live_queries.counts.runs


async def test_a_stream_that_was_cut_gets_its_answer_again_only_if_it_has_changed(
    gateway: GatewayClient, port: int
) -> None:
    product = await create_product(gateway, title="a")
    variables = {"sku": product["sku"]}
    async with stream_of(port, product["sku"], query=TITLE, variables=variables) as stream:
        assert (await stream.receive())["data"] == {"product": {"title": "a"}}
        last_id = stream.last_id
    assert last_id
    async with stream_of(port, product["sku"], last_id, query=TITLE, variables=variables) as stream:
        await until(lambda: gateway.state.live_queries.counts.listeners == 1 and runs(gateway) >= 2)
        product = await rename(gateway, product, "b")
        # The unchanged one has not come.
        assert (await stream.receive())["data"] == {"product": {"title": "b"}}
    async with stream_of(port, product["sku"], last_id, query=TITLE, variables=variables) as stream:
        assert (await stream.receive())["data"] == {"product": {"title": "b"}}


async def runs_again(gateway: GatewayClient, before: int) -> None:
    await until(lambda: runs(gateway) > before)


async def test_a_socket_gets_its_answer_again_only_if_it_has_changed(gateway: GatewayClient, port: int) -> None:
    product = await create_product(gateway, title="a")
    last_id = None
    for title in ("a", "b"):
        async with opened(port) as socket:
            await socket.send({"type": "connection_init", "payload": {"eventIds": True}})
            await socket.receive()
            extensions: dict[str, Any] = {"lastEventId": last_id} if last_id else {}
            before = runs(gateway)
            await socket.send(subscribe("1", TITLE, variables={"sku": product["sku"]}, extensions=extensions))
            if last_id:
                await runs_again(gateway, before)
                product = await rename(gateway, product, title)
            answer = (await socket.receive())["payload"]
            assert answer["data"] == {"product": {"title": title}}
            last_id = answer["extensions"]["eventId"]


async def test_a_client_that_asks_for_no_ids_gets_none(socket: Socket) -> None:
    await socket.init()
    await socket.subscribe("1", CATEGORY, {"slug": "x"})
    assert (await socket.receive())["payload"] == {"data": {"category": None}}
