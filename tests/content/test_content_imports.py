"""Imports of posts: front matter and text become entries, and a repeated import changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.content.support.site import REVISIONS, at, create_page, create_section
from tests.support import real_data
from tests.support.harness import GatewayClient
from tests.support.importing import Imported, put

pytestmark = pytest.mark.usefixtures("sound")
Given = dict[str, Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "posts.jsonl"


def post(**fields: Any) -> Given:
    """Return a valid post."""
    return {"slug": "first", "title": "First", "text": "Text.", "publishOn": "2020-01-02T03:04:05.000Z", **fields}


async def imported(gateway: GatewayClient, file: Path, *posts: Given) -> Imported:
    return await put(gateway.db, "posts", file, posts)


async def test_a_post_becomes_an_entry_in_a_new_blog(gateway: GatewayClient, file: Path) -> None:
    done = await imported(
        gateway, file, post(tags=["b", "a"], author={"id": "u1", "name": "Ann"}, layout="post", extra={"x": 1})
    )

    found = await at(gateway, "/blog/first", token=None)
    assert done.counts == {"created": 1}
    published = "2020-01-02T03:04:05.000Z"
    assert (found["__typename"], found["title"], found["text"], found["tags"]) == (
        "BlogEntry",
        "First",
        "Text.",
        ["b", "a"],
    )
    assert (found["author"], found["created"], found["publishOn"]) == (
        {"userId": "u1", "name": "Ann"},
        published,
        published,
    )
    assert (await at(gateway, "/blog"))["kind"] == "BLOG"


async def test_posts_are_imported_into_the_blogs_that_they_name(gateway: GatewayClient, file: Path) -> None:
    await create_section(gateway, slug="team")
    await create_section(gateway, "BLOG", slug="news", title="News")

    done = await imported(gateway, file, post(blog="/team/our-blog"), post(blog="/news"), post())

    assert done.counts == {"created": 3}
    assert (await at(gateway, "/team/our-blog"))["title"] == "Our blog"
    assert [(await at(gateway, path))["title"] for path in ("/team/our-blog/first", "/news/first")] == ["First"] * 2
    assert (await at(gateway, "/news"))["title"] == "News"


@pytest.mark.parametrize(
    ("fields", "author"),
    [
        ({}, {"userId": "import", "name": "Import"}),
        ({"authors": ["ann", "bob"]}, {"userId": "ann, bob", "name": "ann, bob"}),
        ({"author": " Ann "}, {"userId": "Ann", "name": "Ann"}),
        ({"authors": []}, {"userId": "import", "name": "Import"}),
    ],
)
async def test_an_author_may_be_given_in_several_forms(
    gateway: GatewayClient, file: Path, fields: Given, author: Given
) -> None:
    await imported(gateway, file, post(**fields))

    assert (await at(gateway, "/blog/first"))["author"] == author


async def test_a_date_means_midnight_and_a_post_without_one_is_a_draft(gateway: GatewayClient, file: Path) -> None:
    dated, draft = post(date="2014-03-12"), post(slug="draft")
    del dated["publishOn"], draft["publishOn"]

    await imported(gateway, file, dated, draft)

    assert (await at(gateway, "/blog/first"))["publishOn"] == "2014-03-12T00:00:00.000Z"
    assert (await at(gateway, "/blog/draft"))["publishOn"] is None
    assert await at(gateway, "/blog/draft", token=None) is None


async def test_a_changed_post_is_imported_as_an_edit(gateway: GatewayClient, file: Path) -> None:
    await imported(gateway, file, post(), post(slug="second"))
    before = await at(gateway, "/blog/first")

    again = await imported(gateway, file, post(), post(slug="second"))
    changed = await imported(
        gateway, file, post(title="Other", text="New.", tags=["x"], publishOn=None), post(slug="second")
    )
    found = await at(gateway, "/blog/first")
    revisions = (await gateway.data(REVISIONS, {"id": found["id"]}))["node"]["revisions"]["nodes"]

    assert again.counts == {"unchanged": 2}
    assert changed.counts == {"changed": 1, "unchanged": 1}
    assert (found["title"], found["text"], found["tags"], found["publishOn"]) == ("Other", "New.", ["x"], None)
    assert (found["id"], found["created"]) == (before["id"], before["created"])
    assert found["nonce"] != before["nonce"]
    assert [one["text"] for one in revisions] == ["New.", "Text."]


async def test_the_last_of_several_posts_with_one_path_is_kept(gateway: GatewayClient, file: Path) -> None:
    done = await imported(gateway, file, post(text="One."), post(text="Two."))

    assert done.counts == {"created": 1, "changed": 1}
    assert (await at(gateway, "/blog/first"))["text"] == "Two."


NO_SLUG = "slug: Slug may hold letters a to z, digits, and '-', '_' or '.' between them."
NO_INSTANT = "publishOn: `DateTime` must be an RFC 3339 string with a zone, for example 2012-03-09T20:55:36.000Z."
NO_DAY = "date: `DateTime` must be an existing date and time; got '2014-02-30T00:00:00Z'."
BAD: list[tuple[Given, str]] = [
    ({"slug": None}, "slug: is missing"),
    ({"slug": "A b"}, NO_SLUG),
    ({"title": ""}, "title: Title must not be empty."),
    ({"title": 1}, "title: must be a string"),
    ({"text": None}, "text: is missing"),
    ({"text": "x" * 300_000}, "text: Text has 300,000 characters; 262,144 are allowed."),
    ({"tags": "x"}, "tags: must be a list"),
    ({"tags": ["x", ""]}, "tags.1: Tags must not be empty."),
    ({"publishOn": "yesterday"}, NO_INSTANT),
    ({"publishOn": None, "date": "2014-02-30"}, NO_DAY),
    ({"blog": "blog"}, "blog: it must be a path, e.g. '/blog'"),
    ({"blog": "/../etc"}, "blog: it must be a path, e.g. '/blog'"),
    ({"blog": "/none/blog"}, "blog: there is no section '/none'"),
    ({"blog": "/about"}, "blog: the node '/about' is not a blog"),
    ({"blog": "/about/blog"}, "blog: A section must be below a section."),
    ({"author": {"name": "x"}}, "author.id: is missing"),
    ({"author": 1}, "author: must be a string"),
    ({"slug": "attic"}, "slug: another node has the slug"),
]


async def test_invalid_posts_are_reported_and_the_others_are_imported(gateway: GatewayClient, file: Path) -> None:
    blog = await create_section(gateway, "BLOG", slug="blog")
    await create_section(gateway, slug="attic", parentId=blog["id"])
    await create_page(gateway, slug="about")
    rows = [post(slug=f"bad-{number}") | fields for number, (fields, _) in enumerate(BAD)]

    done = await imported(gateway, file, *rows, post())

    assert done.reasons == [(number + 1, reason) for number, (_, reason) in enumerate(BAD)]
    assert done.counts == {"created": 1, "failed": len(BAD)}
    assert (await at(gateway, "/blog/first"))["text"] == "Text."


async def test_a_real_blog_of_three_hundred_posts_is_imported_unchanged(gateway: GatewayClient, file: Path) -> None:
    given = real_data.rows("posts")

    first = await put(gateway.db, "posts", file, given)
    again = await put(gateway.db, "posts", file, given)

    assert (first.counts, first.reasons) == ({"created": 300}, [])
    assert again.counts == {"unchanged": 300}
    shown: list[Given] = []
    after = None
    text = """
    query ($after: String) {
      content(path: "/blog") {
        ... on Section {
          entries(first: 100, after: $after) {
            nodes { slug path title text html tags publishOn author { name } }
            pageInfo { hasNextPage endCursor }
          }
        }
      }
    }
    """
    while True:
        page = (await gateway.data(text, {"after": after}, token=None))["content"]["entries"]
        shown += page["nodes"]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    by_slug = {row["slug"]: row for row in given}
    assert [one["publishOn"] for one in shown] == sorted((one["publishOn"] for one in shown), reverse=True)
    assert len(shown) == len(given)
    for one in shown:
        row = by_slug[one["slug"]]
        assert (one["text"], one["publishOn"][:10], one["path"]) == (row["text"], row["date"], f"/blog/{one['slug']}")
        assert one["title"].split() == row["title"].split()
        assert set(one["tags"]) == {" ".join(tag.split()) for tag in row["tags"]}
        assert "<script" not in one["html"]
    feed = await gateway.http.get("/feeds/blog.atom")
    assert feed.status_code == 200
    assert feed.text.count("<entry>") == 20
