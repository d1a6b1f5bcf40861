"""Feeds of blogs: Atom and RSS with the published entries, and conditional requests."""

from __future__ import annotations

from datetime import UTC
from email.utils import format_datetime
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest
from pymongo.errors import ConnectionFailure

from portico.gateway.settings import Settings
from portico.resolvers.content.settings import ContentSettings
from tests.content.support.site import FUTURE, create_entry, create_page, create_section, own
from tests.support.fixtures import gateway_with
from tests.support.harness import Commands, GatewayClient, SettableClock, running, with_settings
from tests.support.interruptions import database_of

ATOM = "{http://www.w3.org/2005/Atom}"
DC = "{http://purl.org/dc/elements/1.1/}"


@pytest.fixture
async def blog(gateway: GatewayClient) -> dict[str, Any]:
    return await create_section(gateway, "BLOG", slug="blog", title="News & <views>")


async def get(gateway: GatewayClient, url: str, **headers: str) -> httpx.Response:
    return await gateway.http.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()})


async def atom(gateway: GatewayClient, url: str = "/feeds/blog.atom") -> ET.Element:
    response = await get(gateway, url)
    assert response.status_code == 200
    return ET.fromstring(response.content)  # noqa: S314 - the gateway under test produces the XML


def text(element: ET.Element | None) -> str:
    assert element is not None
    return element.text or ""


def titles(feed: ET.Element) -> list[str]:
    return [text(entry.find(f"{ATOM}title")) for entry in feed.iter(f"{ATOM}entry")]


async def test_an_atom_feed_contains_all_fields_of_an_entry(gateway: GatewayClient, blog: dict[str, Any]) -> None:
    await create_entry(
        gateway,
        blog,
        slug="first",
        title="One & <b>two</b>",
        text="*Hello*, [there](other) ![x](/assets/x.png)\n",
        tags=["a & b", '<i>"x"</i>'],
        publishOn="2020-01-02T03:04:05.678Z",
    )

    response = await get(gateway, "/feeds/blog.atom")
    feed = await atom(gateway)

    assert response.headers["content-type"] == "application/atom+xml; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert text(feed.find(f"{ATOM}title")) == "News & <views>"
    links = {link.get("rel"): link.get("href") for link in feed.findall(f"{ATOM}link")}
    assert links == {"alternate": "http://gateway/blog", "self": "http://gateway/feeds/blog.atom"}
    (entry,) = feed.findall(f"{ATOM}entry")
    assert text(entry.find(f"{ATOM}title")) == "One & <b>two</b>"
    assert text(entry.find(f"{ATOM}published")) == "2020-01-02T03:04:05.678000+00:00"
    assert text(entry.find(f"{ATOM}author/{ATOM}name")) == "tester"
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert link.get("href") == "http://gateway/blog/first"
    assert [one.get("term") for one in entry.findall(f"{ATOM}category")] == ["a & b", '<i>"x"</i>']
    content = entry.find(f"{ATOM}content")
    assert content is not None
    assert content.get("type") == "html"
    assert text(content) == (
        '<p><em>Hello</em>, <a href="http://gateway/blog/other" rel="nofollow noopener">there</a> '
        '<img src="http://gateway/assets/x.png" alt="x"></p>\n'
    )


async def test_an_rss_feed_contains_all_fields_of_an_entry(gateway: GatewayClient, blog: dict[str, Any]) -> None:
    await create_entry(gateway, blog, slug="first", title="<First>", text="Text.", tags=["a&b"])

    response = await get(gateway, "/feeds/blog.rss")

    assert response.headers["content-type"] == "application/rss+xml; charset=utf-8"
    channel = ET.fromstring(response.content).find("channel")  # noqa: S314 - the gateway under test produces the XML
    assert channel is not None
    assert (text(channel.find("title")), text(channel.find("link"))) == ("News & <views>", "http://gateway/blog")
    (item,) = channel.findall("item")
    assert {child.tag: child.text for child in item} == {
        "title": "<First>",
        "link": "http://gateway/blog/first",
        "description": "<p>Text.</p>\n",
        f"{DC}creator": "tester",
        "pubDate": "Wed, 01 Jan 2020 00:00:00 +0000",
        "guid": text(item.find("guid")),
        "category": "a&b",
    }
    guid = item.find("guid")
    assert guid is not None
    assert guid.get("isPermaLink") == "false"


async def test_an_entry_keeps_its_id_when_its_title_or_path_changes(
    gateway: GatewayClient, blog: dict[str, Any]
) -> None:
    entry = await create_entry(gateway, blog)
    before = await atom(gateway)
    await gateway.result("editMetadata", own(entry, slug="x", title="X"))
    await gateway.result("editMetadata", own(blog, slug="news"))

    after = await atom(gateway, "/feeds/news.atom")

    for path in (f"{ATOM}id", f"{ATOM}entry/{ATOM}id"):
        assert text(before.find(path)) == text(after.find(path))
    assert (await get(gateway, "/feeds/blog.atom")).status_code == 404


async def test_a_feed_lists_the_latest_twenty_published_entries_to_every_caller(
    gateway: GatewayClient, blog: dict[str, Any], clock: SettableClock
) -> None:
    for number in range(22):
        day = f"2020-01-{number + 1:02}T00:00:00Z"
        await create_entry(gateway, blog, title=f"Day {number + 1}", publishOn=day)
    await create_entry(gateway, blog, title="Draft", publishOn=None)
    await create_entry(gateway, blog, title="Future", publishOn=FUTURE)
    await create_section(gateway, parentId=blog["id"])

    anonymous = await atom(gateway)
    editor = await get(gateway, "/feeds/blog.atom", authorization=f"Bearer {gateway.token()}")
    clock.advance(days=366 * 2_000)
    later = await atom(gateway)

    assert titles(anonymous) == [f"Day {number}" for number in range(22, 2, -1)]
    assert b"Future" not in editor.content
    assert titles(later)[0] == "Future"


async def test_an_unchanged_feed_is_not_sent_again(
    gateway: GatewayClient, blog: dict[str, Any], clock: SettableClock, commands: Commands
) -> None:
    entry = await create_entry(gateway, blog, text="One.")
    first = await get(gateway, "/feeds/blog.atom")
    commands.clear()

    same = await get(gateway, "/feeds/blog.atom", if_none_match=first.headers["etag"])

    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
    assert commands.names() == ["find cms.nodes", "find cms.nodes"]
    assert all("detail.text" not in command.get("projection", {}) for command in commands.sent)

    known = first.headers["etag"]
    for mutation, changes in (
        ("editText", {"text": "Two."}),
        ("editMetadata", {"title": "Other"}),
        ("addTags", {"tags": ["new"]}),
    ):
        clock.advance(seconds=2)
        given = {"id": entry["id"], **changes} if mutation == "addTags" else own(entry, **changes)
        entry = (await gateway.result(mutation, given))["content"]
        changed = await get(gateway, "/feeds/blog.atom", if_none_match=known)
        assert changed.status_code == 200, mutation
        known = changed.headers["etag"]
    assert b"Two." in changed.content


async def test_withdrawals_deletions_and_late_entries_change_the_feed(
    gateway: GatewayClient, blog: dict[str, Any], clock: SettableClock
) -> None:
    older = await create_entry(gateway, blog, title="Older", publishOn="2020-01-01T00:00:00Z")
    newer = await create_entry(gateway, blog, title="Newer", publishOn="2020-02-01T00:00:00Z")
    shown, known = [], ""
    withdrawn = own(newer, publishOn=None)
    for change in (
        create_entry(gateway, blog, title="Late", publishOn="2019-12-31T00:00:00Z"),
        gateway.result("editMetadata", withdrawn),
        gateway.result("deleteContent", own(older)),
    ):
        await change
        # `If-Modified-Since` is ignored, even with the date of the current second.
        dated = format_datetime(clock.now().replace(tzinfo=UTC), usegmt=True)
        response = await get(gateway, "/feeds/blog.atom", if_modified_since=dated)
        assert (response.status_code, "last-modified" in response.headers) == (200, False)
        assert response.headers["etag"] != known
        known = response.headers["etag"]
        shown.append(titles(ET.fromstring(response.content)))  # noqa: S314 - the gateway under test produces the XML

    assert shown == [["Newer", "Older", "Late"], ["Older", "Late"], ["Late"]]


async def test_an_entry_that_becomes_visible_by_time_changes_the_feed(
    gateway: GatewayClient, blog: dict[str, Any], clock: SettableClock
) -> None:
    await create_entry(gateway, blog, publishOn=f"{clock.now().year + 1}-01-01T00:00:00.000Z")
    before = await get(gateway, "/feeds/blog.atom")
    clock.advance(days=367)

    after = await get(gateway, "/feeds/blog.atom", if_none_match=before.headers["etag"])

    assert after.status_code == 200


@pytest.mark.parametrize("name", ["if_modified_since", "if_unmodified_since"])
async def test_an_impossible_date_is_ignored(gateway: GatewayClient, blog: dict[str, Any], name: str) -> None:
    response = await get(gateway, "/feeds/blog.atom", **{name: "Fri, 31 Dec 9999 23:59:59 -2300"})

    assert (response.status_code, blog["slug"]) == (200, "blog")


async def test_a_head_request_returns_only_the_headers(gateway: GatewayClient, blog: dict[str, Any]) -> None:
    await create_entry(gateway, blog)
    whole = await get(gateway, "/feeds/blog.rss")

    head = await gateway.http.head("/feeds/blog.rss")

    assert (head.status_code, head.content) == (200, b"")
    assert dict(head.headers) == dict(whole.headers)


async def test_an_unchanged_feed_is_rendered_once(gateway: GatewayClient, blog: dict[str, Any]) -> None:
    await create_entry(gateway, blog)
    first = await get(gateway, "/feeds/blog.atom")
    gateway.commands.clear()

    second = await get(gateway, "/feeds/blog.atom")

    assert second.content == first.content
    assert gateway.commands.names() == ["find cms.nodes", "find cms.nodes"]


async def test_an_empty_blog_has_an_empty_feed_that_does_not_change(
    gateway: GatewayClient, blog: dict[str, Any], clock: SettableClock
) -> None:
    first = await get(gateway, "/feeds/blog.atom")
    clock.advance(hours=1)
    second = await get(gateway, "/feeds/blog.atom")

    assert titles(await atom(gateway)) == []
    assert (first.headers["etag"], first.content) == (second.headers["etag"], second.content)
    assert blog["updated"][:19] in first.text


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "path",
    [
        "blog",
        "blog.json",
        "blog.atom/",
        ".atom",
        "none.atom",
        "about.atom",
        "docs.atom",
        "blog/entry.atom",
        "../feeds/blog.atom/../x.atom",
        "..%2f..%2fetc%2fpasswd.atom",
        "%2e%2e/blog.atom",
        "blog%00.atom",
        "/blog.atom",
        "blog//entry.atom",
        "BLOG.atom",
        "$where.atom",
        "a/" * 5_000 + "a.atom",
    ],
    ids=lambda path: path[:20],
)
async def test_any_other_path_is_not_found(gateway: GatewayClient, blog: dict[str, Any], path: str) -> None:
    await create_entry(gateway, blog, slug="entry")
    await create_page(gateway, slug="about")
    await create_section(gateway, slug="docs")

    # The path is passed unchanged: given as text, the client would remove the dots.
    response = await gateway.http.get(httpx.URL(f"http://gateway/feeds/{path}"))

    assert response.status_code == 404
    assert "passwd" not in response.text


async def test_a_nested_blog_has_a_feed_and_a_dot_in_a_slug_is_not_a_format(gateway: GatewayClient) -> None:
    folder = await create_section(gateway, slug="team")
    blog = await create_section(gateway, "BLOG", slug="v1.0", parentId=folder["id"])
    await create_entry(gateway, blog, slug="first", title="First")

    feed = await atom(gateway, "/feeds/team/v1.0.atom")

    assert titles(feed) == ["First"]
    link = feed.find(f"{ATOM}entry/{ATOM}link")
    assert link is not None
    assert link.get("href") == "http://gateway/team/v1.0/first"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_a_feed_is_read_only(gateway: GatewayClient, blog: dict[str, Any], method: str) -> None:
    response = await gateway.http.request(method, "/feeds/blog.atom")

    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
    assert blog["slug"] == "blog"


HOSTILE = """<script>alert(1)</script>

<img src=x onerror=alert(1)> <a href="javascript:alert(1)">x</a> [y](javascript:alert(1)) <iframe src="//evil"></iframe>

]]> &lt;script&gt; <!-- --> \x0b\x1b\ufffe\uffff <svg onload=alert(1)> [broken](http://[)
"""


@pytest.mark.parametrize("format_", ["atom", "rss"])
async def test_a_feed_contains_no_scripts_and_is_valid_xml_for_any_text(
    gateway: GatewayClient, blog: dict[str, Any], format_: str
) -> None:
    await create_entry(gateway, blog, slug="hostile", title="</title><script>", text=HOSTILE, tags=["]]></x>"])
    # Titles of older entries may contain characters that are refused today.
    older = {"title": "</title><script>\x1b\ufffe", "tags": ["]]></x>\uffff"]}
    await gateway.db["cms.nodes"].update_one({"slug": "hostile"}, {"$set": older})

    response = await get(gateway, f"/feeds/blog.{format_}")

    feed = ET.fromstring(response.content)  # noqa: S314 - the gateway under test produces the XML
    inside = " ".join(text(element) for element in feed.iter())
    found = [text(element) for element in feed.iter() if element.tag in {f"{ATOM}content", "description"}]
    html = next(one for one in found if "<p" in one)
    for bad in ("<script", "onerror", "onload", '="javascript:', "<iframe", "<svg"):
        assert bad not in html, bad
    assert "</title><script>" in inside
    assert response.content.count(b"<script") == 0


async def test_links_start_with_the_url_of_the_site(settings: Settings) -> None:
    async with running(with_settings(settings, ContentSettings, site_url="https://www.example.org/site/")) as gateway:
        blog = await create_section(gateway, "BLOG", slug="blog")
        await create_entry(gateway, blog, slug="first", text="[a](/b) [c](d)")
        feed = await atom(gateway)

    links = [link.get("href") for link in feed.iter(f"{ATOM}link")]
    assert links == [
        "https://www.example.org/site/blog",
        "http://gateway/feeds/blog.atom",
        "https://www.example.org/site/blog/first",
    ]
    html = text(feed.find(f"{ATOM}entry/{ATOM}content"))
    assert 'href="https://www.example.org/b"' in html
    assert 'href="https://www.example.org/site/blog/d"' in html


@pytest.mark.parametrize("host", ['x"><script>', "a b", "evil.example/path", "user@evil.example", ""])
async def test_an_invalid_host_header_is_not_repeated(gateway: GatewayClient, blog: dict[str, Any], host: str) -> None:
    response = await get(gateway, "/feeds/blog.atom", host=host)

    assert response.status_code == 200
    assert "http://localhost/blog" in response.text
    assert blog["slug"] == "blog"
    if host:
        assert host not in response.text


elsewhere = gateway_with(cors_origins="https://reader.example")


async def test_a_page_of_an_allowed_origin_may_read_a_feed(elsewhere: GatewayClient) -> None:
    await create_section(elsewhere, "BLOG", slug="blog")

    response = await get(elsewhere, "/feeds/blog.atom", origin="https://reader.example")

    assert response.headers["access-control-allow-origin"] == "https://reader.example"


async def test_a_feed_is_unavailable_without_a_database(gateway: GatewayClient) -> None:
    class Gone:
        def __getitem__(self, name: str) -> Any:
            raise ConnectionFailure(name)

    reading = gateway.state.reading
    gateway.state.reading = Gone()  # type: ignore[assignment]
    try:
        with database_of(gateway, Gone()):
            response = await get(gateway, "/feeds/blog.atom")
    finally:
        gateway.state.reading = reading

    [error] = response.json()["errors"]
    assert (response.status_code, error["extensions"]) == (503, {"code": "UNAVAILABLE"})
