"""If a caller may not see an object, every path to the object gives the same answer as if it did not exist."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from portico.gateway.settings import Settings
from portico.resolvers.declarations import Domain
from portico.resolvers.served import Domains, InvalidDomains
from portico.schema import create_schema
from portico.schema.context import Context
from portico.schema.fields import Source
from portico.schema.kinds import Kind
from tests.support import library as support
from tests.support.harness import Answer, GatewayClient
from tests.support.library import BOOK, READER, SHELF, LibraryQuery, kind_of, library
from tests.support.paging import rows_of

HER_BOOKS = ["a", "c", "d", "f", "i"]
HIS_BOOKS = ["b", "e", "g", "h"]
READER_FIELDS = 'query ($name: String! = "reader") {{ reader(name: $name) {{ {} }} }}'
PAGE = """
query ($first: Int!, $after: String) {
  reader(name: "reader") {
    books(first: $first, after: $after) {
      nodes { title }
      edges { cursor node { title } }
      pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    }
  }
}
"""


@pytest.fixture(params=["within", "shown_to"])
def rule(request: pytest.FixtureRequest) -> str:
    """Which part of the rule hides books: the shelf that contains them, or a rule that reads the shelves itself."""
    form: str = request.param
    return form


async def books_on_visible_shelves(context: Context, books: Sequence[Source]) -> Sequence[Source | None]:
    """Shows books on shelves of the caller and of nobody, by one read."""
    found = await context.db["shelfs"].find({"_id": {"$in": [book["shelf"] for book in books]}}).to_list()
    visible = {shelf["_id"] for shelf in found if shelf["owner"] in {None, context.subject}}
    return [book if book["shelf"] in visible else None for book in books]


@pytest.fixture
def changed(rule: str) -> Sequence[Kind]:
    """The kinds that the library has in place of its own ones of the same names."""
    return [replace(BOOK, within=None, shown_to=books_on_visible_shelves)] if rule == "shown_to" else []


@pytest.fixture(params=["compiled", "reference"])
async def shelves(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch, changed: Sequence[Kind]
) -> AsyncIterator[GatewayClient]:
    """Two owners with a shelf each. Requests come from the first owner."""
    async with library(replace(settings, executor=request.param), monkeypatch, *changed) as gateway:
        gateway.subject = "she"
        await gateway.db["shelfs"].insert_many([{"_id": "hers", "owner": "she"}, {"_id": "his", "owner": "he"}])
        await gateway.db["books"].insert_many(
            [{"_id": title, "shelf": "hers", "reader": "friend"} for title in HER_BOOKS]
            + [{"_id": title, "shelf": "his", "reader": "friend"} for title in HIS_BOOKS]
        )
        await gateway.db["readers"].insert_many(
            [
                {"_id": "reader", "favourite": "b", "read": ["e", "d", "b", "a", "gone", "d"], "friends": ["friend"]},
                {"_id": "friend", "favourite": "a", "read": ["a"]},
                {"_id": "late", "favourite": "gone", "read": ["gone"]},
            ]
        )
        gateway.commands.clear()
        yield gateway


async def ask(gateway: GatewayClient, fields: str, name: str = "reader", **options: Any) -> Answer:
    return await gateway.ask(READER_FIELDS.format(fields), {"name": name}, **options)


async def test_a_relation_to_a_hidden_object_is_null_like_one_to_a_missing_object(shelves: GatewayClient) -> None:
    fields = "favourite { id title shelf { id } }"

    assert (
        (await ask(shelves, fields)).data
        == (await ask(shelves, fields, "late")).data
        == {"reader": {"favourite": None}}
    )
    assert (await ask(shelves, "favourite { title }", token=shelves.token("he"))).data["reader"]["favourite"] == {
        "title": "b"
    }


async def test_a_list_of_related_objects_leaves_out_the_hidden_ones(shelves: GatewayClient) -> None:
    fields = "read { title } __typename"

    hers, his, nobodys = [
        [book["title"] for book in (await ask(shelves, fields, token=token)).data["reader"]["read"]]
        for token in (shelves.token(), shelves.token("he"), None)
    ]

    assert (hers, his, nobodys) == (["d", "a", "d"], ["e", "b"], [])


async def test_a_relation_is_checked_under_each_of_its_aliases(shelves: GatewayClient) -> None:
    fields = "favourite { title } again: favourite { __typename } read { __typename } lent { title }"

    found = (await ask(shelves, fields)).data["reader"]

    assert (found["favourite"], found["again"], len(found["read"])) == (None, None, 3)


async def test_a_relation_can_disclose_an_object_to_callers_who_see_its_parent(shelves: GatewayClient) -> None:
    found = (await ask(shelves, "lent { title shelf { id } }")).body

    # The relation discloses the book. The shelf of the book is still hidden, and cannot be null.
    assert (await ask(shelves, "lent { title }")).data["reader"]["lent"] == {"title": "b"}
    assert found["data"]["reader"]["lent"] is None


@pytest.mark.parametrize("name", ["reader", "late"])
async def test_a_hidden_object_in_a_non_null_relation_is_not_found_and_not_a_fault(
    shelves: GatewayClient, name: str
) -> None:
    with capture_logs() as log:
        answer = await ask(shelves, "name present { title }", name)

    (error,) = answer.body["errors"]
    assert answer.body["data"] == {"reader": None}
    assert (error["message"], error["path"]) == ("There is no such book.", ["reader", "present"])
    assert error["extensions"] == {"code": "NOT_FOUND"}
    assert log == []


async def test_a_page_skips_hidden_rows_and_is_filled_with_later_ones(shelves: GatewayClient) -> None:
    first = (await shelves.data(PAGE, {"first": 3}))["reader"]["books"]
    second = (await shelves.data(PAGE, {"first": 3, "after": first["pageInfo"]["endCursor"]}))["reader"]["books"]

    assert [row["title"] for row in first["nodes"]] == ["a", "c", "d"]
    assert [row["title"] for row in second["nodes"]] == ["f", "i"]
    assert [edge["node"]["title"] for edge in second["edges"]] == ["f", "i"]
    assert (first["pageInfo"]["hasNextPage"], second["pageInfo"]["hasNextPage"]) == (True, False)
    assert first["pageInfo"]["startCursor"] == first["edges"][0]["cursor"]
    assert second["pageInfo"]["endCursor"] == second["edges"][-1]["cursor"]


async def test_a_page_with_only_hidden_rows_is_empty(shelves: GatewayClient) -> None:
    page = (await shelves.data(PAGE, {"first": 2}, token=None))["reader"]["books"]

    assert page == {
        "nodes": [],
        "edges": [],
        "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None},
    }


async def test_every_page_size_shows_the_same_rows(shelves: GatewayClient) -> None:
    for size in range(1, 8):
        rows = await rows_of(shelves, PAGE, "reader", "books", first=size)
        assert [row["title"] for row in rows] == HER_BOOKS


async def test_ids_find_the_same_objects_as_relations_and_pages(shelves: GatewayClient) -> None:
    ids = [Kind.encode_id("Book", title) for title in "abcdefghi"] + [
        Kind.encode_id("Shelf", name) for name in ("hers", "his")
    ]

    found = (await shelves.data("query ($ids: [ID!]!) { nodes(ids: $ids) { id } }", {"ids": ids}))["nodes"]

    seen = [Kind.encode_id("Book", title) for title in HER_BOOKS] + [Kind.encode_id("Shelf", "hers")]
    assert [one["id"] for one in found if one is not None] == seen


async def test_an_object_is_hidden_after_its_owner_object_is_deleted(shelves: GatewayClient) -> None:
    await shelves.db["shelfs"].delete_one({"_id": "hers"})

    found = (await ask(shelves, "read { title } books { nodes { title } }")).data["reader"]

    assert found == {"read": [], "books": {"nodes": []}}


def assert_only_its_own_is_hidden(answer: Answer) -> None:
    assert answer.body["data"] == {"reader": {"favourite": None, "friends": [{"favourite": {"title": "a"}}]}}
    assert [error["path"] for error in answer.body["errors"]] == [["reader", "favourite"]]


async def test_a_failed_visibility_rule_hides_only_its_own_object(shelves: GatewayClient) -> None:
    await shelves.db["books"].update_one({"_id": "b"}, {"$unset": {"shelf": ""}})

    answer = await ask(shelves, "favourite { __typename } friends { favourite { title } }")

    assert answer.codes == ["INTERNAL"]
    assert_only_its_own_is_hidden(answer)


async def test_a_parent_of_many_objects_is_read_once(shelves: GatewayClient) -> None:
    await ask(shelves, "read { title } friends { read { title } favourite { id } }")

    assert sorted(shelves.commands.names()) == ["find books", "find readers", "find readers", "find shelfs"]


def titles_in(found: Any) -> list[list[str]]:
    return [[book["title"] for book in shelf["books"]["nodes"]] for shelf in found["shelves"]["nodes"]]


@pytest.mark.parametrize("rule", ["within"], indirect=True)
async def test_the_rows_of_a_page_are_not_read_again_for_what_they_contain(shelves: GatewayClient) -> None:
    await shelves.db["shelfs"].insert_one({"_id": "open", "owner": None})
    await shelves.db["books"].insert_one({"_id": "z", "shelf": "open"})
    shelves.commands.clear()

    found = await shelves.data("{ shelves { nodes { books(first: 10) { nodes { title } } } } }")

    assert titles_in(found) == [HER_BOOKS, ["z"]]
    assert [name.split()[1] for name in shelves.commands.names()].count("shelfs") == 1


async def of_the_caller(context: Context, found: Sequence[Source]) -> Sequence[Source | None]:
    return [shelf if shelf["owner"] == context.subject else None for shelf in found]


@pytest.mark.parametrize("changed", [[replace(SHELF, visible_to=None, shown_to=of_the_caller)]], ids=["shelf"])
async def test_a_list_with_a_rule_of_its_own_shows_nothing_inside_of_its_rows(
    shelves: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def by_id_alone(_context: Context, found: Sequence[Source]) -> Sequence[Source]:
        return [{"_id": shelf["_id"]} for shelf in found]

    monkeypatch.setattr(support, "_SHELVES", replace(support._SHELVES, shown_to=by_id_alone))

    found = await shelves.data("{ shelves { nodes { id books(first: 10) { nodes { title } } } } }")

    assert titles_in(found) == [HER_BOOKS, []]


async def without_reader(_context: Context, books: Sequence[Source]) -> Sequence[Source]:
    return [{name: value for name, value in book.items() if name != "reader"} for book in books]


@pytest.mark.parametrize("changed", [[replace(BOOK, within=None, shown_to=without_reader)]], ids=["book"])
async def test_a_rule_can_show_less_of_an_object_by_every_path(shelves: GatewayClient) -> None:
    shown = {"title": "b", "reader": None}
    data = (await ask(shelves, "favourite { title reader { name } } read { title reader { name } }")).data["reader"]
    assert data["favourite"] == shown
    assert shown in data["read"]
    assert (await ask(shelves, "books(first: 2) { nodes { title reader { name } } }")).data["reader"]["books"][
        "nodes"
    ] == [{"title": "a", "reader": None}, shown]
    node = "query ($id: ID!) { node(id: $id) { ... on Book { title reader { name } } } }"
    assert await shelves.data(node, {"id": Kind.encode_id("Book", "b")}) == {"node": shown}


async def fails_for_b(_context: Context, books: Sequence[Source]) -> Sequence[Source | Exception]:
    return [ValueError("b") if book["_id"] == "b" else book for book in books]


@pytest.mark.parametrize("changed", [[replace(BOOK, within=None, shown_to=fails_for_b)]], ids=["book"])
async def test_an_error_of_a_rule_is_the_error_of_its_object(shelves: GatewayClient) -> None:
    with capture_logs():
        answer = await ask(shelves, "favourite { title } friends { favourite { title } }")
    assert_only_its_own_is_hidden(answer)


async def books_of_readers(_context: Context, books: Sequence[Source]) -> Sequence[Source | None]:
    return [book if book["reader"] else None for book in books]


UNDECLARED = {
    "shelf": [replace(BOOK, within=None, discriminator=(), visible_to=lambda book, _: bool(book["shelf"]))],
    "within": [replace(BOOK, discriminator=(), within=lambda book: ("Shelf", book["within"]))],
    "reader": [replace(BOOK, within=None, discriminator=(), shown_to=books_of_readers)],
}


@pytest.mark.parametrize(("changed", "path"), [(kinds, path) for path, kinds in UNDECLARED.items()], ids=UNDECLARED)
async def test_the_log_names_the_path_that_a_kind_does_not_declare_for_its_rule(
    shelves: GatewayClient, path: str
) -> None:
    with capture_logs() as log:
        answer = await ask(shelves, "favourite { title }")

    assert [error["extensions"]["code"] for error in answer.body["errors"]] == ["INTERNAL"]
    (fault,) = log
    assert str(fault["exc_info"]) == (
        f"The rule of the kind Book misses {path!r} in a document. If this is a path of the documents that the rule "
        "reads, name it in `reads` of the kind."
    )


async def test_a_kind_that_everybody_may_see_is_read_without_a_check(shelves: GatewayClient) -> None:
    await ask(shelves, "name friends { name }")

    assert [command["projection"] for command in shelves.commands.sent] == [{"_id": 1, "friends": 1}, {"_id": 1}]


def test_a_kind_without_a_visibility_rule_is_refused_at_the_start() -> None:
    kinds = (SHELF, BOOK, READER, kind_of("Loan"))

    with pytest.raises(InvalidDomains, match="the domain library declares the kind Loan without a visibility rule"):
        create_schema(Domains([Domain(name="library", about="Books.", kinds=kinds, queries=(LibraryQuery,))]))
