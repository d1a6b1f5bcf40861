"""An error is the member of the union of its field: in queries and in mutations, wherever it is raised."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, cast

import orjson
import pytest
import strawberry

from portico import Conflict, Domain, InvalidInput, NotFound, schema
from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, new_key
from tests.support.library import serving

MOST = 3


@strawberry.type(description="It is done.")
class SizedPayload:
    size: int = strawberry.field(description="What is given.")


Result = Annotated[SizedPayload | NotFound | InvalidInput, strawberry.union("SizedResult", description="The result.")]
Later = Annotated["LazyResult", strawberry.lazy("tests.extending.lazy_results")]  # type: ignore[name-defined]  # noqa: F821


@strawberry.input(description="A length.")
class Length:
    value: int = strawberry.field(description="In metres.")

    def __post_init__(self) -> None:
        if self.value > MOST:
            raise InvalidInput("Too long.", "length")


@strawberry.input(description="A size.")
class SizedInput:
    size: int = strawberry.field(description="The size.")
    length: Length | None = strawberry.field(description="The length.", default=None)
    idempotency_key: str | None = schema.idempotency_key()

    def __post_init__(self) -> None:
        if self.size > MOST:
            raise InvalidInput("Too large.", "size")


@strawberry.type(description="A shelf.")
class SizedShelf:
    book: Result | None = strawberry.field(description="Its book.")


class EmptyShelf:
    """What the field of a shelf reads."""

    @property
    def book(self) -> Any:
        raise NotFound("Book")


@strawberry.type
class SizedMutation:
    @schema.mutation(description="Checks a size.")
    async def size(self, input: SizedInput) -> Result | None:  # noqa: A002 - the name that clients see
        return SizedPayload(size=input.size)

    @schema.mutation(description="Finds nothing.")
    async def find_later(self, input: SizedInput) -> Later | None:  # noqa: A002 - the name that clients see
        raise NotFound("Shelf", str(input.size))


@strawberry.type
class SizedQuery:
    @strawberry.field(description="Finds nothing.")  # type: ignore[untyped-decorator]
    async def find(self) -> Result:
        raise NotFound("Shelf")

    @strawberry.field(description="Finds nothing, at once.")  # type: ignore[untyped-decorator]
    def find_now(self) -> Result | None:
        raise NotFound("Shelf")

    @strawberry.field(description="Finds nothing, in a union of another module.")  # type: ignore[untyped-decorator]
    async def find_lazily(self) -> Later:
        raise NotFound("Shelf")

    @strawberry.field(description="Checks a length.")  # type: ignore[untyped-decorator]
    async def measure(self, length: Length) -> Result:
        return SizedPayload(size=length.value)

    @strawberry.field(description="Fails with an error that is no member.")  # type: ignore[untyped-decorator]
    async def conflict(self) -> Result | None:
        raise Conflict("Another call was first.")

    @strawberry.field(description="A shelf.")  # type: ignore[untyped-decorator]
    async def shelf(self) -> SizedShelf:
        return cast("SizedShelf", EmptyShelf())


@strawberry.type
class SizedSubscription:
    @strawberry.subscription(description="Finds nothing to listen to.")  # type: ignore[untyped-decorator]
    async def found(self) -> AsyncIterator[Result]:
        raise NotFound("Shelf")


DOMAIN = Domain(
    name="sized", about="Sizes.", mutations=(SizedMutation,), queries=(SizedQuery,), subscriptions=(SizedSubscription,)
)
LAZILY = "{ __typename ... on UserError { message } }"
SHOWN = "{ __typename ... on UserError { message } ... on InvalidInput { path } }"
SIZE = f"mutation ($input: SizedInput!) {{ size(input: $input) {SHOWN} }}"
NO_SHELF = {"__typename": "NotFound", "message": "There is no such shelf."}
TOO_LARGE = {"__typename": "InvalidInput", "message": "Too large.", "path": ["size"]}
TOO_LONG = {"__typename": "InvalidInput", "message": "Too long.", "path": ["length"]}
DONE = {"__typename": "SizedPayload"}


@pytest.fixture(params=["compiled", "reference"])
async def sized(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[GatewayClient]:
    chosen = replace(settings, domains="sized", executor=cast("Any", request.param))
    async with serving(monkeypatch, chosen, "sized", __name__) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (f"find {SHOWN}", NO_SHELF),
        (f"findNow {SHOWN}", NO_SHELF),
        (f"findLazily {LAZILY}", NO_SHELF),
        (f"measure(length: {{value: 3}}) {SHOWN}", DONE),
        (f"measure(length: {{value: 4}}) {SHOWN}", TOO_LONG),
    ],
)
async def test_a_query_answers_with_an_error_that_its_union_names(
    sized: GatewayClient, field: str, shown: dict[str, Any]
) -> None:
    assert list((await sized.data(f"{{ {field} }}")).values()) == [shown]


async def test_a_field_without_a_resolver_answers_with_an_error_that_its_union_names(sized: GatewayClient) -> None:
    data = await sized.data(f"{{ shelf {{ book {SHOWN} }} }}")

    assert data["shelf"]["book"] == {"__typename": "NotFound", "message": "There is no such book."}


async def test_a_query_raises_an_error_that_its_union_does_not_name(sized: GatewayClient) -> None:
    answer = await sized.ask(f"{{ conflict {SHOWN} }}")

    assert (answer.body["data"], answer.codes) == ({"conflict": None}, ["CONFLICT"])


async def test_a_mutation_answers_with_an_error_that_its_lazy_union_names(sized: GatewayClient) -> None:
    data = await sized.data(f"mutation {{ findLater(input: {{size: 1}}) {LAZILY} }}")

    assert data["findLater"] == NO_SHELF


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"size": 3, "length": {"value": 3}}, DONE),
        ({"size": 4}, TOO_LARGE),
        ({"size": 3, "length": {"value": 4}}, TOO_LONG),
    ],
)
async def test_a_mutation_answers_with_an_error_of_its_input(
    sized: GatewayClient, given: dict[str, Any], shown: dict[str, Any]
) -> None:
    assert (await sized.data(SIZE, {"input": given}))["size"] == shown


async def test_a_key_can_be_used_again_after_an_error_of_the_input(sized: GatewayClient) -> None:
    key = {"idempotencyKey": new_key()}

    answers = [(await sized.data(SIZE, {"input": {"size": size, **key}}))["size"] for size in (4, 4, 3, 3)]

    assert answers == [TOO_LARGE, TOO_LARGE, DONE, DONE]


async def test_an_error_ends_a_subscription_whatever_its_union_names(sized: GatewayClient) -> None:
    answers = [orjson.loads(answer.json) async for answer in sized.answers(f"subscription {{ found {SHOWN} }}")]

    assert [answer["errors"][0]["extensions"]["code"] for answer in answers] == ["NOT_FOUND"]
