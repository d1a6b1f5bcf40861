"""Markdown rendering: the HTML of texts, the removal of harmful markup, and the limits of costs."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.schema.markdown import LONGEST, MAX_BRACKETS, MAX_PARAGRAPH, MAX_TAGS, Effort, comment_html, page_html
from tests.content.support.attacks import ATTACKS, harm_in

BOTH = pytest.mark.parametrize("render", [page_html, comment_html])


@BOTH
def test_commonmark_becomes_html(render: object) -> None:
    assert callable(render)
    text = "# Head\n\nSome *em* and **strong** `code`.\n\n1. one\n2. two\n\n> quoted\n\n```python\nx = 1 < 2\n```\n"

    assert render(text) == (
        "<h1>Head</h1>\n<p>Some <em>em</em> and <strong>strong</strong> <code>code</code>.</p>\n"
        "<ol>\n<li>one</li>\n<li>two</li>\n</ol>\n<blockquote>\n<p>quoted</p>\n</blockquote>\n"
        '<pre><code class="language-python">x = 1 &lt; 2\n</code></pre>\n'
    )


@BOTH
def test_links_are_nofollow_and_pictures_are_loaded_by_http_only(render: object) -> None:
    assert callable(render)

    assert render('[a](https://example.com "t")') == (
        '<p><a href="https://example.com" title="t" rel="nofollow noopener">a</a></p>\n'
    )
    assert render("[a](/about) <mailto:a@example.com>") == (
        '<p><a href="/about" rel="nofollow noopener">a</a> '
        '<a href="mailto:a@example.com" rel="nofollow noopener">mailto:a@example.com</a></p>\n'
    )
    assert render("![a](/assets/x.png) ![b](http://example.com/b.png)") == (
        '<p><img src="/assets/x.png" alt="a"> <img src="http://example.com/b.png" alt="b"></p>\n'
    )
    assert render("![a](mailto:a@example.com)") == '<p><img alt="a"></p>\n'


def test_harmless_html_of_a_page_is_kept() -> None:
    assert page_html("<table><tr><td colspan=2 onclick=x()>a</td></tr></table>") == (
        '<table><tbody><tr><td colspan="2">a</td></tr></tbody></table>'
    )
    assert page_html("a <b class='x' style='position:fixed'>b</b><script>alert(1)</script>") == "<p>a <b>b</b></p>\n"
    assert page_html("<p class='language-x'><code class='y'>a</code></p>") == "<p><code>a</code></p>"
    assert page_html("<img src=x.png width=1e9 height=20>") == '<img src="x.png" height="20">'


def test_html_in_a_comment_is_escaped() -> None:
    assert comment_html("a List<String> <b>b</b>\n\n<div>") == (
        "<p>a List&lt;String&gt; &lt;b&gt;b&lt;/b&gt;</p>\n<p>&lt;div&gt;</p>\n"
    )


@pytest.mark.parametrize("text", ATTACKS)
@BOTH
def test_rendered_attacks_contain_nothing_harmful(render: object, text: str) -> None:
    assert callable(render)
    assert harm_in(render(text)) == []
    assert harm_in(render(f"a {text} b\n\n> {text}")) == []


@given(st.lists(st.sampled_from([*ATTACKS, "[", "](", ")", "*", "`", "\n", "> ", "<", "'", '"', "a"]), max_size=12))
def test_mixtures_of_attacks_contain_nothing_harmful(parts: list[str]) -> None:
    text = "".join(parts)

    assert harm_in(page_html(text)) == harm_in(comment_html(text)) == []


BOMBS = {
    "open brackets": "[" * MAX_PARAGRAPH,
    "open pictures": "![" * MAX_BRACKETS + "a " * 9_000,
    "open links": "[a](" * (MAX_PARAGRAPH // 4),
    "emphasis": "*a_ " * (MAX_PARAGRAPH // 4),
    "strong": "a**b" + "c* " * (MAX_PARAGRAPH // 3),
    "code": "".join("a" + "`" * length for length in range(1, 200)),
    "quotes": ">" * MAX_PARAGRAPH,
    "lists": "- " * (MAX_PARAGRAPH // 2),
    "deeper and deeper lists": "\n".join(" " * (2 * depth) + "- a" for depth in range(140)),
    "open tags": "<a b='" * (MAX_PARAGRAPH // 6),
    "nested tags": "<div>" * (LONGEST // 5),
    "nested tags, each a block": "<div>\n\n" * MAX_TAGS,
    "open sections": "<![CDATA[" * (MAX_PARAGRAPH // 9),
    "a long line": "a" * LONGEST,
    "a text that is too long": "[" * (LONGEST + 1),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", BOMBS)
@BOTH
def test_costly_texts_are_rendered_in_little_time_with_limited_nesting(render: object, name: str) -> None:
    assert callable(render)
    began = time.process_time()

    html = render(BOMBS[name])

    assert time.process_time() - began < 2
    assert html.count("<blockquote>") + html.count("<ul>") <= 2 * 20


@BOTH
def test_text_beyond_the_limits_is_shown_unrendered(render: object) -> None:
    assert callable(render)
    bomb = "[<b>" * (MAX_BRACKETS + 1)

    assert render(f"*a*\n\n{bomb}") == f"<p><em>a</em></p>\n<p>\n{bomb.replace('<', '&lt;').replace('>', '&gt;')}</p>\n"
    assert render("<" * (LONGEST + 1)) == f"<pre>{'&lt;' * (LONGEST + 1)}</pre>"


@pytest.mark.sample(4)
@pytest.mark.parametrize("part", ["a\n\n", "* a\n", "*a*\n\n", "> > > > a\n\n"])
def test_a_text_of_too_many_parts_is_shown_unrendered_and_takes_little_memory(part: str) -> None:
    text = part * (240_000 // len(part))
    tracemalloc.start()

    html = page_html(text)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert html == f"<pre>{escape(text)}</pre>"
    assert peak < 60_000_000


@BOTH
def test_a_text_of_many_parts_is_rendered(render: object) -> None:
    assert callable(render)

    assert render("*a* b\n\n" * 5_000) == "<p><em>a</em> b</p>\n" * 5_000


# Paragraphs, lists, definitions, brackets without an end, and marks without an end.
SLOW = ["a\n\n" * 3_000, "- a\n" * 2_500, "".join(f"[{n}]: /x\n" for n in range(900)), "[a" * 490, "**a *b " * 1_400]


@BOTH
@pytest.mark.sample(3)
@pytest.mark.parametrize("text", SLOW)
def test_the_effort_of_a_text_depends_on_the_text_alone(render: Callable[..., str], text: str) -> None:
    efforts = [Effort(), Effort()]
    for effort in efforts:
        render(text, effort=effort)
    twice = Effort()
    render(f"{text}\n\n# .\n\n{text}", effort=twice)

    assert efforts[0] == efforts[1]
    assert efforts[0].steps > len(text) / 4
    assert 1.9 * efforts[0].steps < twice.steps < 2.1 * efforts[0].steps


def test_a_plain_text_takes_little_effort() -> None:
    effort = Effort()
    page_html("word " * 10_000, effort=effort)

    assert effort.steps < 600
