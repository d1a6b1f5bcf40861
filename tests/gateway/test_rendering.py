"""Markdown that an operation renders: each text once, and with a bounded effort."""

from __future__ import annotations

import pytest

from portico.resolvers.comments.discussions import DOCUMENTS
from portico.schema import rendering
from portico.schema.comments import discussions
from portico.schema.markdown import Effort, comment_html
from tests.comments.support.discussions import open_on_product, post
from tests.content.support.site import create_page
from tests.support.harness import GatewayClient

HTML = "query ($id: ID!) { node(id: $id) { ... on Discussion { comments(first: 100) { nodes { text html } } } } }"


async def test_aliases_render_a_text_once(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def counted(text: str, *, effort: Effort) -> str:
        texts.append(text)
        return comment_html(text, effort=effort)

    monkeypatch.setattr(discussions, "comment_html", counted)
    discussion = await open_on_product(gateway, DOCUMENTS)
    comment = await post(gateway, discussion, "*one*")
    texts.clear()
    aliases = " ".join(f"a{number}: html" for number in range(100))

    found = await gateway.data(
        f"query ($id: ID!) {{ node(id: $id) {{ ... on Comment {{ {aliases} }} }} }}", {"id": comment["id"]}
    )

    assert set(found["node"].values()) == {"<p><em>one</em></p>\n"}
    assert texts == ["*one*"]


async def test_an_operation_renders_with_a_bounded_effort(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    effort = Effort()
    comment_html(("*0* " * 200).strip(), effort=effort)
    monkeypatch.setattr(rendering, "MOST", 3 * effort.steps)
    discussion = await open_on_product(gateway, DOCUMENTS)
    for number in range(4):
        await post(gateway, discussion, f"*{number}* " * 200)

    answer = await gateway.ask(HTML, {"id": discussion})

    assert answer.codes == ["OPERATION_TOO_COMPLEX"]
    assert answer.body["errors"][0]["path"] == ["node", "comments", "nodes", 3, "html"]
    assert answer.body["errors"][0]["message"].startswith("The operation renders too much Markdown.")
    assert (await gateway.data(HTML.replace("100", "3"), {"id": discussion}))["node"]["comments"]["nodes"][2]["html"]


async def test_one_text_is_rendered_however_long_it_is(gateway: GatewayClient) -> None:
    page = await create_page(gateway, text="word " * 50_000)

    assert (
        len(
            (
                await gateway.data(
                    "query ($path: String!) { content(path: $path) { ... on Page { html } } }", {"path": page["path"]}
                )
            )["content"]["html"]
        )
        > 200_000
    )
