"""Errors of another package: a repeated call gets the answer of the first, whatever the classes are called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any

import pytest
import strawberry

import portico
from portico import Domain, InvalidInput, NotFound, schema
from portico.gateway.settings import Settings
from portico.resolvers.errors import error_type, name_of
from portico.schema.errors import failure
from tests.support.harness import GatewayClient, new_key
from tests.support.library import serving

Info = portico.Info


class SlugTaken(portico.DomainError):
    """An error with the name of one of Portico's, and with other facts."""

    facts = ("shelf",)

    def __init__(self, shelf: str) -> None:
        super().__init__("The shelf has this slug.")
        self.shelf = shelf


class Gone(portico.NotFound):
    """An error that the member of its base represents."""


class TooHigh(portico.InvalidInput):
    """An error with a member of its own, as its base has."""

    highest = 7


class Unknown(portico.DomainError):
    """An error that no type represents."""


@schema.member(SlugTaken)
@strawberry.type(description="A shelf has the slug.")
class ShelfSlugTaken(schema.UserError):
    shelf: str = strawberry.field(description="The shelf.")


@schema.member(TooHigh, lambda error: {"most": error.highest})
@strawberry.type(description="Too high.")
class HeightRefused(schema.UserError):
    most: int = strawberry.field(description="The most.")


@failure("Others have booked the seats.", seats="The seats that are taken.", row="Their row.")
class SeatsTaken(portico.DomainError):
    """An error that unions name themselves."""

    seats: list[int]
    row: str | None


@strawberry.type(description="It is done.")
class DonePayload:
    done: bool = strawberry.field(description="True.")


@strawberry.input(description="Which error.")
class FailInput:
    error: str = strawberry.field(description="Its name.")
    idempotency_key: str | None = schema.idempotency_key()


Result = Annotated[
    DonePayload | ShelfSlugTaken | NotFound | InvalidInput | HeightRefused | SeatsTaken,
    strawberry.union("FailResult", description="The result."),
]
RAISED: dict[str, Exception] = {
    "SlugTaken": SlugTaken("top"),
    "Gone": Gone("Shelf"),
    "TooHigh": TooHigh("Too high.", "height"),
    "Unknown": Unknown("What is it?"),
    "SeatsTaken": SeatsTaken("Choose other seats.", seats=[3, 4], row=None),
}
runs: list[str] = []


@strawberry.type
class FailMutation:
    @schema.mutation(description="Fails, or does nothing.")
    async def fail(self, input: FailInput) -> Result | None:  # noqa: A002 - the name that clients see
        runs.append(input.error)
        if input.error in RAISED:
            raise RAISED[input.error]
        return DonePayload(done=True)


@strawberry.type
class FailQuery:
    @strawberry.field(description="Reads an id that a query lacks.")  # type: ignore[untyped-decorator]
    async def operation_id(self, info: Info) -> str | None:
        return info.context.operation_id

    @strawberry.field(description="Reads what a write takes.")  # type: ignore[untyped-decorator]
    async def operation(self, info: Info) -> str | None:
        return str(info.context.operation)


DOMAIN = Domain(name="failing", about="Errors.", mutations=(FailMutation,), queries=(FailQuery,))
FAIL = """
mutation ($input: FailInput!) {
  fail(input: $input) {
    __typename ... on UserError { message } ... on ShelfSlugTaken { shelf } ... on HeightRefused { most }
    ... on SeatsTaken { seats row }
    ... on DonePayload { done }
  }
}
"""


@pytest.fixture
async def failing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GatewayClient]:
    runs.clear()
    async with serving(monkeypatch, replace(settings, domains="failing"), "failing", __name__) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        ("SlugTaken", {"__typename": "ShelfSlugTaken", "message": "The shelf has this slug.", "shelf": "top"}),
        ("Gone", {"__typename": "NotFound", "message": "There is no such shelf."}),
        ("TooHigh", {"__typename": "HeightRefused", "message": "Too high.", "most": 7}),
        ("SeatsTaken", {"__typename": "SeatsTaken", "message": "Choose other seats.", "seats": [3, 4], "row": None}),
        ("nothing", {"__typename": "DonePayload", "done": True}),
    ],
)
async def test_a_repeated_call_gets_the_answer_of_the_first(
    failing: GatewayClient, error: str, answer: dict[str, Any]
) -> None:
    given = {"error": error, "idempotencyKey": new_key()}

    answers = [(await failing.data(FAIL, {"input": given}))["fail"] for _ in range(2)]

    assert answers == [answer, answer]
    assert runs == [error]


async def test_an_error_that_no_type_represents_is_a_fault_and_the_key_can_be_used_again_at_once(
    failing: GatewayClient,
) -> None:
    given = {"error": "Unknown", "idempotencyKey": new_key()}

    answers = [await failing.ask(FAIL, {"input": given}) for _ in range(2)]

    assert [(answer.body["data"], len(answer.codes)) for answer in answers] == [({"fail": None}, 1)] * 2
    # The second call did not wait for the lease of the first.
    assert runs == ["Unknown", "Unknown"]


@pytest.mark.parametrize("field", ["operationId", "operation"])
async def test_only_a_mutation_has_an_operation_id(failing: GatewayClient, field: str) -> None:
    answer = await failing.ask(f"{{ {field} }}")

    assert answer.codes == ["INTERNAL"]


def test_an_error_is_stored_by_its_class_and_not_by_its_name() -> None:
    own = error_type("SlugTaken")

    assert (own, error_type(name_of(SlugTaken))) != (SlugTaken, own)
    assert error_type(name_of(SlugTaken)) is SlugTaken
    assert name_of(own) == "SlugTaken"


def test_errors_of_other_packages_that_earlier_versions_have_stored_are_found() -> None:
    assert error_type("TooHigh") is TooHigh
    with pytest.raises(LookupError, match="There is no error type Missing"):
        error_type("Missing")


def test_a_failure_annotates_the_types_of_its_facts() -> None:
    with pytest.raises(ValueError, match="Untyped must annotate its fact `seats`"):

        @failure("Seats are taken.", seats="Which seats.")
        class Untyped(portico.DomainError):
            pass
