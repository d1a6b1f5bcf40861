"""The bytes that an operation may read and answer with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.answer_bounds import METER, PLACES, SMALL_BYTES, AnswerTooLarge, Meter, Room, hold
from portico.resolvers.comments.discussions import DOCUMENTS
from tests.catalog.support.catalog import add_categories, add_products, product
from tests.comments.support.discussions import open_on_product, post
from tests.content.support.site import create_page
from tests.support.aliases import aliased
from tests.support.harness import MUTATIONS, Answer, Commands, GatewayClient, new_key, product_input, running
from tests.support.sockets import POSTED, answered_by_stream, listening, opened, wait_until_live

MOST = 300_000
LONG = "x" * 20_000
TOO_LARGE = (
    "The answer, or what is read for it, has more than 300,000 bytes. Ask for smaller pages, select fewer long texts, "
    "or send several operations."
)
WAYS = [("pymongo", True, "compiled"), ("pymongo", False, "compiled"), ("motor", True, "reference")]


@pytest.fixture(params=WAYS, ids=["direct reads", "reads through the driver", "motor and reference"])
async def bounded(settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[GatewayClient]:
    driver, direct, executor = request.param
    chosen = replace(settings, max_answer_bytes=MOST, driver=driver, direct_reads=direct, executor=executor)
    async with running(chosen, commands=Commands()) as client:
        yield client


async def add_long_products(gateway: GatewayClient, count: int = 20) -> None:
    await add_products(gateway.db, [product(sku=f"p{number}", description=LONG) for number in range(count)])


def assert_too_large(answer: Answer, *path: Any) -> None:
    """Asserts that the answer has this error and nothing else."""
    assert answer.body["data"] is None
    [error] = answer.body["errors"]
    assert error["extensions"] == {"code": "ANSWER_TOO_LARGE"}
    assert error["message"] == TOO_LARGE
    if path:
        assert error["path"] == list(path)


async def test_an_answer_within_the_bound_is_complete(bounded: GatewayClient) -> None:
    await add_long_products(bounded)

    found = await bounded.data("{ products(first: 13) { nodes { description } } }")

    assert [one["description"] for one in found["products"]["nodes"]] == [LONG] * 13


async def test_an_operation_that_reads_too_much_gets_one_error_with_its_path(bounded: GatewayClient) -> None:
    await add_long_products(bounded)

    assert_too_large(await bounded.ask("{ products { nodes { title description } } }"))


async def test_aliases_that_read_too_much_together_are_stopped_before_they_read_all(bounded: GatewayClient) -> None:
    await add_long_products(bounded)
    commands = bounded.commands
    commands.clear()

    assert_too_large(await bounded.ask(f"{{ {aliased('products(first: 10) { nodes { description } }', 60)} }}"))

    if bounded.settings.direct_reads and bounded.settings.driver == "pymongo":
        assert len(commands.sent) <= 20, commands.sent


async def test_the_next_operation_of_the_same_caller_is_not_affected(bounded: GatewayClient) -> None:
    await add_long_products(bounded)
    for _ in range(3):
        assert_too_large(await bounded.ask("{ products { nodes { title description } } }"))

        assert len((await bounded.data("{ products { nodes { title } } }"))["products"]["nodes"]) == 20


async def test_relations_and_lists_below_count_too(bounded: GatewayClient) -> None:
    await add_categories(bounded.db, [{"slug": f"c{number}", "name": f"C {number}"} for number in range(4)])
    given = [product(description=LONG, categories=[f"c{number % 4}"]) for number in range(20)]
    await add_products(bounded.db, given)

    assert_too_large(await bounded.ask("{ categories { nodes { slug products { nodes { description } } } } }"))


@pytest.mark.parametrize("times", [14, 16])
async def test_a_text_counts_each_time_that_it_is_shown(bounded: GatewayClient, times: int) -> None:
    await add_long_products(bounded, 1)

    answer = await bounded.ask(f'{{ product(sku: "p0") {{ {aliased("description", times)} }} }}')

    if times == 14:
        assert answer.data == {"product": {f"a{number}": LONG for number in range(14)}}
    else:
        assert_too_large(answer, "product", "a15")


async def test_a_document_counts_each_time_that_it_is_shown(bounded: GatewayClient) -> None:
    await add_long_products(bounded, 1)

    assert_too_large(await bounded.ask(f"{{ products {{ {aliased('nodes { description }', 16)} }} }}"))


async def test_a_related_document_counts_for_each_object_that_shows_it(bounded: GatewayClient) -> None:
    await add_categories(bounded.db, [{"slug": "c", "name": "n" * 200}])
    await add_products(bounded.db, [product(categories=["c"]) for _ in range(100)])

    names = aliased("name", 20)
    assert_too_large(await bounded.ask(f"{{ products(first: 100) {{ nodes {{ categories {{ {names} }} }} }} }}"))


@pytest.mark.parametrize(("count", "is_answered"), [(70, True), (80, False)])
async def test_a_related_document_counts_for_each_object_also_if_it_shows_each_text_once(
    bounded: GatewayClient, count: int, is_answered: bool
) -> None:
    await add_categories(bounded.db, [{"slug": "c", "name": "n"}])
    await bounded.db["categories"].update_one({"slug": "c"}, {"$set": {"name": "n" * 4_000}})
    await add_products(bounded.db, [product(categories=["c"]) for _ in range(count)])

    answer = await bounded.ask(f"{{ products(first: {count}) {{ nodes {{ categories {{ name }} }} }} }}")

    if is_answered:
        assert [one["categories"][0]["name"] for one in answer.data["products"]["nodes"]] == ["n" * 4_000] * count
    else:
        assert_too_large(answer)


async def test_many_related_documents_that_are_small_do_not_make_an_answer_too_large(bounded: GatewayClient) -> None:
    await add_categories(bounded.db, [{"slug": f"c{number}", "name": f"C {number}"} for number in range(10)])
    await add_products(bounded.db, [product(categories=[f"c{number % 10}"]) for number in range(100)])
    lists = aliased("categories { name }", 40)

    nodes = (await bounded.data(f"{{ products(first: 100) {{ nodes {{ {lists} }} }} }}"))["products"]["nodes"]

    assert len(nodes) == 100
    assert all(node == dict.fromkeys(node, node["a0"]) and len(node) == 40 for node in nodes)


async def test_the_bytes_of_a_text_count_and_not_only_its_characters(bounded: GatewayClient) -> None:
    await add_products(bounded.db, [product(sku="p0", description="😀" * 20_000)])

    answer = await bounded.ask(f'{{ product(sku: "p0") {{ {aliased("description", 4)} }} }}')

    assert_too_large(answer, "product")


async def test_computed_texts_count(bounded: GatewayClient) -> None:
    page = await create_page(bounded, text="word " * 10_000)
    text = f"query ($path: String!) {{ content(path: $path) {{ ... on Page {{ {aliased('html', 7)} }} }} }}"

    assert_too_large(await bounded.ask(text, {"path": page["path"]}))


async def test_errors_count(bounded: GatewayClient) -> None:
    failing = "products(first: 0) { nodes { id } }"

    assert len((await bounded.ask(f"{{ {aliased(failing, 100)} }}")).codes) == 100
    assert_too_large(await bounded.ask(f"{{ {aliased(failing, 200)} }}"))


async def test_a_mutation_whose_answer_is_too_large_has_taken_effect(bounded: GatewayClient) -> None:
    given = {**product_input(sku="p0", description=LONG), "idempotencyKey": new_key()}
    shown = f"... on ProductPayload {{ product {{ {aliased('description', 16)} }} }}"
    text = f"mutation ($input: CreateProductInput!) {{ createProduct(input: $input) {{ {shown} }} }}"

    assert_too_large(await bounded.ask(text, {"input": given}))

    assert (await bounded.data(MUTATIONS["createProduct"], {"input": given}))["createProduct"]["product"]["sku"] == "p0"


async def test_a_write_may_read_more_than_an_answer_may_have(settings: Settings) -> None:
    async with running(replace(settings, max_answer_bytes=10_000)) as gateway:
        await add_long_products(gateway, 1)
        found = (await gateway.data('{ product(sku: "p0") { id nonce } }'))["product"]
        shown = "... on ProductPayload { product { title } }"
        text = f"mutation ($input: UpdateProductInput!) {{ updateProduct(input: $input) {{ {shown} }} }}"

        edited = (await gateway.data(text, {"input": {**found, "title": "New"}}))["updateProduct"]

        assert edited["product"]["title"] == "New"


async def test_an_event_that_is_too_large_is_an_error_and_the_next_one_arrives(settings: Settings) -> None:
    async with running(replace(settings, max_answer_bytes=MOST)) as gateway, listening(gateway) as port:
        discussion = await open_on_product(gateway, DOCUMENTS)
        async with opened(port) as socket:
            await socket.init()
            await socket.subscribe("1", POSTED.replace("text", aliased("text", 40)), {"id": discussion})
            await wait_until_live(gateway)
            await post(gateway, discussion, "x" * 9_000)
            await post(gateway, discussion, "short")

            large, small = await socket.receive(), await socket.receive()

    assert [error["extensions"]["code"] for error in large["payload"]["errors"]] == ["ANSWER_TOO_LARGE"]
    assert large["payload"]["data"] is None
    assert small["payload"]["data"]["commentPosted"]["a7"] == "short"


async def test_all_protocols_send_large_answers_and_the_error(settings: Settings) -> None:
    small, large = (f"{{ products(first: {count}) {{ nodes {{ description }} }} }}" for count in (13, 20))
    async with running(replace(settings, max_answer_bytes=MOST)) as gateway, listening(gateway) as port:
        await add_long_products(gateway)
        async with opened(port) as socket:
            await socket.init()
            await socket.subscribe("1", small)
            await socket.subscribe("2", large)
            messages = [await socket.receive() for _ in range(4)]
        by_id = {message["id"]: message["payload"] for message in messages if message["type"] == "next"}
        events = [await answered_by_stream(port, text) for text in (small, large)]

    for ok, failed in ((by_id["1"], by_id["2"]), events):
        assert [node["description"] for node in ok["data"]["products"]["nodes"]] == [LONG] * 13
        assert [error["extensions"]["code"] for error in failed["errors"]] == ["ANSWER_TOO_LARGE"]


async def test_many_large_operations_at_once_are_all_answered(settings: Settings) -> None:
    async with running(settings) as gateway:
        await add_products(gateway.db, [product(description=LONG) for _ in range(40)])
        text = "{ a: products(first: 40) { nodes { description } } b: products(first: 40) { nodes { description } } }"

        answers = await asyncio.gather(*(gateway.data(text) for _ in range(30)))

        assert {len(answer["a"]["nodes"]) + len(answer["b"]["nodes"]) for answer in answers} == {80}


async def test_an_operation_that_holds_many_bytes_waits_for_a_place() -> None:
    room = Room()
    meters = [Meter(10 * SMALL_BYTES, room) for _ in range(PLACES + 2)]

    admitted = [meter.admits(2 * SMALL_BYTES) for meter in meters]

    assert admitted == [True] * PLACES + [False] * 2
    waiting = [asyncio.create_task(meter.enter(2 * SMALL_BYTES)) for meter in meters[PLACES:]]
    await asyncio.sleep(0)
    assert meters[-1].admits(SMALL_BYTES)
    waiting[0].cancel()
    await asyncio.gather(waiting[0], return_exceptions=True)
    meters[0].close()
    await waiting[1]
    assert meters[-1].admits(2 * SMALL_BYTES)
    for meter in meters:
        meter.close()
    assert [room.take_now() for _ in range(PLACES + 1)] == [True] * PLACES + [False]


async def test_what_resolvers_make_at_the_same_time_counts_together() -> None:
    room = Room(1)
    assert room.take_now()
    METER.set(Meter(5 * SMALL_BYTES, room))
    making = [asyncio.create_task(hold(3 * SMALL_BYTES)) for _ in range(3)]
    await asyncio.sleep(0)

    room.give_back()
    outcomes = await asyncio.gather(*making, return_exceptions=True)

    assert outcomes[0] is None
    assert [type(outcome) for outcome in outcomes[1:]] == [AnswerTooLarge] * 2


async def test_a_cancelled_operation_gives_back_a_place_that_it_has_just_got() -> None:
    room = Room(1)
    assert room.take_now()
    waiting = asyncio.create_task(room.take())
    await asyncio.sleep(0)

    room.give_back()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert room.take_now()


async def test_a_reply_that_exceeds_the_bound_is_refused_whatever_is_free() -> None:
    meter = Meter(SMALL_BYTES, Room())

    assert meter.admits(SMALL_BYTES)
    assert not meter.admits(1)
    with pytest.raises(AnswerTooLarge):
        await meter.enter(1)
    with pytest.raises(AnswerTooLarge):
        meter.require()


async def test_what_tasks_read_after_their_operation_is_not_counted() -> None:
    meter = Meter(SMALL_BYTES, Room())
    meter.close()

    meter.count(10 * SMALL_BYTES)

    assert meter.admits(10 * SMALL_BYTES)
    meter.require()


async def test_an_operation_that_ends_while_a_task_of_it_waits_for_a_place_keeps_no_place() -> None:
    room = Room(1)
    meter = Meter(10 * SMALL_BYTES, room)
    assert room.take_now()
    waiting = asyncio.create_task(meter.enter(2 * SMALL_BYTES))
    await asyncio.sleep(0)

    meter.close()
    room.give_back()
    await waiting

    assert room.take_now()
