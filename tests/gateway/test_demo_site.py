"""The demo's site: a blog with a draft and a future entry, and a page. Starting the demo again does not change them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portico.gateway.settings import Settings
from tests.content.support.site import at
from tests.support.demo import Demo, load_demo
from tests.support.harness import GatewayClient, assert_invariants

BLOG = """
{
  content(path: "/blog") {
    ... on Section {
      entries { nodes { title path html author { name } } }
      children { nodes { path nonce updated } }
    }
  }
  about: content(path: "/about") { nonce ... on Page { text } }
}
"""


async def test_the_demo_has_a_blog_with_published_and_hidden_entries(
    demo_gateway: GatewayClient, loaded_demo: Demo
) -> None:
    shown = (await demo_gateway.data(BLOG, token=None))["content"]
    everything = (await demo_gateway.data(BLOG))["content"]
    feed = await demo_gateway.http.get("/feeds/blog.atom")

    assert "posts: 7 created" in loaded_demo.printed
    assert [len(found["children"]["nodes"]) for found in (shown, everything)] == [5, 7]
    assert len(shown["entries"]["nodes"]) == 5
    assert all("<" in entry["html"] and entry["author"]["name"] for entry in shown["entries"]["nodes"])
    assert feed.text.count("<entry>") == 5
    await assert_invariants(demo_gateway)


@pytest.mark.usefixtures("demo")
async def test_starting_the_demo_again_does_not_change_the_site(gateway: GatewayClient, settings: Settings) -> None:
    about = await at(gateway, "/about")
    await gateway.result("editText", {"id": about["id"], "nonce": about["nonce"], "text": "Closed."})
    before = await gateway.data(BLOG)

    again = await load_demo(replace(settings, domains="content"))

    assert "posts: 7 unchanged" in again
    assert await gateway.data(BLOG) == before
    assert before["about"]["text"] == "Closed."


@pytest.mark.usefixtures("demo")
async def test_starting_the_demo_again_keeps_a_page_of_your_own(gateway: GatewayClient, settings: Settings) -> None:
    about = await at(gateway, "/about")
    await gateway.result("deleteContent", {"id": about["id"], "nonce": about["nonce"]})
    own = {"kind": "FOLDER", "slug": "about", "title": "Mine"}
    await gateway.result("createSection", own)

    await load_demo(replace(settings, domains="content"))

    assert (await at(gateway, "/about"))["title"] == "Mine"
