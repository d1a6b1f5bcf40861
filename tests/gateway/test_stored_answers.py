"""Answers of mutations: an answer that can be stored is repeated correctly, and others are refused at the start."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, TypeVar, cast

import pytest
import strawberry
from strawberry.schema.config import StrawberryConfig

from portico.resolvers.catalog.categories import find_by_ids
from portico.resolvers.shop import carts
from portico.schema import create_schema
from portico.schema.catalog.categories import CATEGORY, Category
from portico.schema.catalog.products import AudioAlbum, Film, GeneralProduct
from portico.schema.content.types import Page
from portico.schema.context import Caller, Info, of_root_field
from portico.schema.fields import stored
from portico.schema.installation import install
from portico.schema.kinds import KindDocument, Node
from portico.schema.mutations import mutation
from portico.schema.scalars import JSON, SCALARS
from portico.schema.shop.carts import Cart
from portico.schema.stored_answers import NotKeepable, require_keepable
from tests.shop.support.shop import cart_of_nobody
from tests.support.domains import DOMAINS
from tests.support.harness import GatewayClient, create_category
from tests.support.ids import key_in

F = TypeVar("F", bound=Callable[..., Any])


@strawberry.enum
class Size(Enum):
    SMALL = 1
    LARGE = 2


@strawberry.type
class Price:
    """A type that is embedded in a document."""

    amount: int = stored("minor")
    since: dt.datetime = stored()


@strawberry.type
class Line:
    """An instance with other types inside."""

    text: str
    category: Category | None = None
    prices: list[Price] = strawberry.field(default_factory=list)

    @strawberry.field
    def loud(self) -> str:
        return self.text.upper()


@strawberry.type
class EverythingPayload:
    categories: list[Category]
    nodes: list[Node | None]
    price: Price
    lines: list[Line]
    line: Line
    size: Size
    sizes: list[list[Size]]
    raw: JSON
    raws: list[JSON]
    at: dt.datetime = strawberry.field(name="moment")
    nothing: Line | None = None


@strawberry.type
class CartsPayload:
    carts: list[Cart]


@strawberry.input
class KeyedInput:
    ids: list[strawberry.ID] = strawberry.field(default_factory=list)
    idempotency_key: str | None = None


def writes(description: str) -> Callable[[F], F]:
    return cast("Callable[[F], F]", mutation(description=description))


TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 6_000)  # noqa: DTZ001 - as the driver returns it
WRITTEN: list[str] = []


@strawberry.type
class Writing:
    @writes("Answers whatever there is.")
    async def everything(self, info: Info, input: KeyedInput) -> EverythingPayload | None:  # noqa: A002 - as clients see it
        WRITTEN.append(info.context.operation_id)
        keys = [key_in("Category", one) for one in input.ids]
        found = await find_by_ids(info.context.db, keys)
        documents: list[Any] = [found[key] for key in keys]
        price: Any = {"minor": 12, "since": TIME, "$odd.name": 1}
        return EverythingPayload(
            categories=documents,
            nodes=[KindDocument(CATEGORY, document) for document in documents],  # type: ignore[misc]
            price=price,
            lines=[Line(text="one", category=documents[0], prices=[price]), Line(text="two")],
            line=Line(text="three"),
            size=Size.LARGE,
            sizes=[[Size.SMALL], []],
            raw=JSON({"kind": "Category", "key": "x", "$set": [1, {"payload": "Line"}]}),
            raws=[JSON("text"), JSON([1])],
            at=TIME,
        )

    @writes("Answers carts.")
    async def fill(self, info: Info, input: KeyedInput) -> CartsPayload | None:  # noqa: A002 - as clients see it
        WRITTEN.append(info.context.operation_id)
        found = await carts.find_by_ids(info.context.db, [key_in("Cart", one) for one in input.ids])
        documents: list[Any] = list(found.values())
        return CartsPayload(carts=documents)

    @writes("Answers nothing.")
    async def forget(self, info: Info, input: KeyedInput) -> CartsPayload | None:  # noqa: A002, ARG002 - as clients see it
        WRITTEN.append(info.context.operation_id)
        return None


@strawberry.type
class Reading:
    here: bool = True


def schema_of(writing: type) -> strawberry.Schema:
    schema = strawberry.Schema(
        query=Reading,
        mutation=writing,
        types=[AudioAlbum, Film, GeneralProduct, Page],
        config=StrawberryConfig(scalar_map=SCALARS),
    )
    install(schema, DOMAINS.kinds, DOMAINS.pages)
    require_keepable(schema)
    return schema


async def call(gateway: GatewayClient, text: str, ids: list[str], caller: str = "tester") -> Any:
    context = of_root_field(gateway.state.context(Caller(caller, frozenset()), "a request"))
    variables = {"input": {"ids": ids, "idempotencyKey": "key"}}
    answer = await schema_of(Writing).execute(text, variable_values=variables, context_value=context)
    assert answer.errors is None, answer.errors
    return answer.data


EVERYTHING = """mutation ($input: KeyedInput!) { everything(input: $input) {
  categories { name } nodes { __typename id ... on Category { name } } price { amount since }
  lines { text loud category { name } prices { amount } } line { text category { name } } size sizes raw raws moment
  nothing { text }
} }"""


@pytest.fixture(autouse=True)
def _nothing_written() -> None:
    WRITTEN.clear()


async def test_lists_embedded_objects_enums_and_json_are_repeated(gateway: GatewayClient) -> None:
    ids = [(await create_category(gateway))["id"] for _ in range(2)]

    first, again = [await call(gateway, EVERYTHING, ids) for _ in range(2)]

    assert len(WRITTEN) == 1
    assert first["everything"]["lines"][0]["prices"] == [{"amount": 12}]
    assert first["everything"]["size"] == "LARGE"
    assert again == first


async def test_objects_in_a_list_are_read_again_and_deleted_ones_are_left_out(gateway: GatewayClient) -> None:
    kept, gone = await create_category(gateway), await create_category(gateway)
    text = "mutation ($input: KeyedInput!) { everything(input: $input) { categories { name } nodes { id } } }"
    await call(gateway, text, [kept["id"], gone["id"]])

    await gateway.result("deleteCategory", {"id": gone["id"]})
    await gateway.result("renameCategory", {"id": kept["id"], "name": "Renamed"})
    again = (await call(gateway, text, [kept["id"], gone["id"]]))["everything"]

    assert again == {"categories": [{"name": "Renamed"}], "nodes": [{"id": kept["id"]}]}


async def test_objects_in_a_list_that_the_caller_may_no_longer_see_are_left_out(gateway: GatewayClient) -> None:
    mine, claimed = await cart_of_nobody(gateway), await cart_of_nobody(gateway)
    text = "mutation ($input: KeyedInput!) { fill(input: $input) { carts { id } } }"
    first = await call(gateway, text, [mine, claimed])

    await gateway.result("claimCart", {"cartId": claimed}, token=gateway.token("somebody else"))
    again = await call(gateway, text, [mine, claimed])

    assert len(first["fill"]["carts"]) == 2
    assert again["fill"]["carts"] == [{"id": mine}]


async def test_an_answer_of_null_is_repeated(gateway: GatewayClient) -> None:
    text = "mutation ($input: KeyedInput!) { forget(input: $input) { __typename } }"

    answers = [await call(gateway, text, []) for _ in range(2)]

    assert (answers, len(WRITTEN)) == ([{"forget": None}] * 2, 1)


@strawberry.type
class DatePayload:
    day: dt.date


@strawberry.type
class DecimalsPayload:
    numbers: list[list[Decimal]]


@strawberry.type
class NestedPayload:
    inner: DatePayload | None


@strawberry.type
class PrivatePayload:
    secret: strawberry.Private[object]
    text: str


@strawberry.type
class MixedPayload:
    mixed: list[Annotated[Category | Line, strawberry.union("Mixed")]]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (DatePayload, "`DatePayload.day` has the scalar type `Date`"),
        (DecimalsPayload, "`DecimalsPayload.numbers` has the scalar type `Decimal`"),
        (NestedPayload, "`DatePayload.day` has the scalar type `Date`"),
        (PrivatePayload, "`PrivatePayload.secret` is private"),
        (MixedPayload, "`MixedPayload.mixed` can be an object of a kind, `Category`, or another value"),
        (Category, "`write` must return a payload type"),
        (list[CartsPayload], "`write` must return a payload type"),
        (str, "`write` must return a payload type"),
    ],
)
def test_a_schema_with_an_answer_that_cannot_be_stored_is_refused(answer: Any, reason: str) -> None:
    async def write(self: Any, info: Info, input: KeyedInput) -> Any:  # noqa: A002, ARG001 - as clients see it
        raise AssertionError

    write.__annotations__["return"] = answer
    writing = strawberry.type(type("Mutation", (), {"write": mutation(description="Writes.")(write)}))

    with pytest.raises(NotKeepable, match=reason.replace("[", r"\[")):
        schema_of(writing)


def test_every_answer_of_the_served_schema_can_be_stored() -> None:
    schema = create_schema(DOMAINS)

    require_keepable(schema)

    assert schema._schema.mutation_type is not None
