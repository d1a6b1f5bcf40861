"""Renders Markdown to HTML that is safe in a page: CommonMark, then an allow list of tags and attributes.

The HTML cannot run scripts, and can load nothing but pictures. Its links are `nofollow`. The work is bounded: a text
that is too long or has too many parts, or a paragraph that is made to be slow to parse, is shown as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import nh3

from portico.resolvers.texts import has_tower, has_unwanted

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

# In characters. A longer text is shown as plain text.
LONGEST = 500_000
# Parsing the inline markup of a paragraph takes time quadratic in its brackets. No normal text has so many.
MAX_PARAGRAPH = 20_000
MAX_BRACKETS = 500
# The most levels of nested lists and quotes. Deeper levels are plain text in the deepest.
MAX_NESTING = 20
# The most blocks, and the most parts of lines, of a text. Each takes 400 bytes while the text is rendered.
MAX_PARTS = 60_000
# Parsing HTML takes time quadratic in the open tags. The HTML of a page with more tags is shown as text.
MAX_TAGS = 5_000

_BLOCKS = "blockquote br dd details div dl dt figcaption figure h1 h2 h3 h4 h5 h6 hr li ol p pre summary ul"
_TABLES = "caption col colgroup table tbody td tfoot th thead tr"
_WORDS = "a abbr b code del dfn em i img ins kbd mark q s samp small span strong sub sup u var wbr"
_TAGS = {*_BLOCKS.split(), *_TABLES.split(), *_WORDS.split()}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "abbr": {"title"},
    "code": {"class"},
    "col": {"span"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}
_SCHEMES = {"http", "https", "mailto"}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_TAG = re.compile(r'<(?:[^>"]|"[^"]*")*>')
# The class with the language of a code fence. No other class is allowed.
_LANGUAGE = re.compile(r"language-[\w+#.-]{1,40}")
_NUMBER = re.compile(r"\d{1,5}")
# The parts of a line that are text.
_SHOWN = {"text", "code_inline"}
# Counts, in the environment of a text, what `_count_parts` has seen.
_PARTS = "parts"
_NUMBERS = {"colspan", "height", "rowspan", "span", "start", "width"}


class _TooManyParts(Exception):
    """The text has more than `MAX_PARTS`."""


@dataclass
class Effort:
    """How much work texts were to render. It depends on the texts alone, and not on the machine or its load.

    A step is a block, a part of a line, or an attempt to find one. Other work is converted to steps: a step took 3 to 7
    microseconds in every text that was made to be slow, and 4.5 in the pages of a blog.
    """

    steps: int = 0

    def add(self, text: str, env: Mapping[str, Any], tokens: Sequence[Token]) -> None:
        """Adds the work of a text, of which the parser found these tokens."""
        found = len(tokens) + sum(len(token.children) for token in tokens if token.children)
        definitions = len(env.get("references", ())) + len(env.get("duplicate_refs", ()))
        self.steps += env[_PARTS] + found + 5 * definitions + text.count("\n") // 4 + len(text) // 100


def page_html(text: str, base: str | None = None, effort: Effort | None = None) -> str:
    """Renders the text of an editor, with the HTML that the allow list permits.

    With `base`, the URL of the page, relative links become absolute. The work is added to `effort`.
    """
    parser = _parser(html=text.count("<") <= MAX_TAGS)
    return _rendered(parser, text, _CLEANER if base is None else _cleaner(partial(_absolute, base)), effort)


def plain_text(text: str, *, effort: Effort) -> str:
    """Returns the text of the paragraphs in one line: without markup, HTML, headings, code blocks and pictures.

    The text may hold any characters, so it is not safe as HTML. It is empty for a text with too many parts.
    """
    env: dict[str, Any] = {_PARTS: 0}
    tokens: list[Token] = []
    try:
        tokens = _parser(html=True).parse(text, env)
    except _TooManyParts:
        env[_PARTS] = MAX_PARTS
    finally:
        effort.add(text, env, tokens)
    paragraphs = (
        token.children or ()
        for before, token in pairwise(tokens)
        if before.type == "paragraph_open" and token.type == "inline"
    )
    lines = ("".join(part.content if part.type in _SHOWN else _gap(part) for part in parts) for parts in paragraphs)
    return " ".join(" ".join(lines).split())


def first_picture(text: str, *, effort: Effort) -> str:
    """Returns the address of the first picture in a line, then what stands in its place for people who do not see it.

    Only pictures in Markdown count, with an address that `page_html` would keep. Empty if there is none.
    """
    env: dict[str, Any] = {_PARTS: 0}
    tokens: list[Token] = []
    try:
        tokens = _parser(html=True).parse(text, env)
    except _TooManyParts:
        env[_PARTS] = MAX_PARTS
    finally:
        effort.add(text, env, tokens)
    for part in (part for token in tokens for part in token.children or ()):
        source = _attribute("img", "src", str(part.attrs.get("src", ""))) if part.type == "image" else None
        if source:
            shown = "".join(one.content for one in part.children or () if one.type in _SHOWN)
            return f"{source}\n{' '.join(shown.split())}"
    return ""


def _gap(part: Token) -> str:
    return " " if part.type in {"softbreak", "hardbreak", "image"} else ""


def comment_html(text: str, effort: Effort | None = None) -> str:
    """Renders the text of any caller. HTML in it is escaped, so `List<String>` is shown as written.

    Character references, or markup between combining marks, can produce characters that a comment must not have. Such a
    text is shown as plain text. The work is added to `effort`.
    """
    html = _rendered(_parser(html=False), text, _CLEANER, effort)
    if not html.isascii() and _has_unwanted_text(html):
        return f"<pre>{escape(text)}</pre>"
    return html


def _has_unwanted_text(html: str) -> bool:
    # A combining mark applies to the letter before it, even with tags between them. Browsers show some attributes, too.
    return has_unwanted(html) or has_tower(html) or has_tower(_TAG.sub("", html))


def _rendered(parser: MarkdownIt, text: str, cleaner: nh3.Cleaner, effort: Effort | None) -> str:
    if len(text) > LONGEST:
        return f"<pre>{escape(text)}</pre>"
    env: dict[str, Any] = {_PARTS: 0}
    tokens: list[Token] = []
    try:
        tokens = parser.parse(text, env)
        html: str = cleaner.clean(parser.renderer.render(tokens, parser.options, env))
    except _TooManyParts:
        env[_PARTS] = MAX_PARTS
        return f"<pre>{escape(text)}</pre>"
    finally:
        if effort is not None:
            effort.add(text, env, tokens)
    return html


@cache
def _parser(*, html: bool) -> MarkdownIt:
    # It has 70 modules, which a start does not need.
    parser: MarkdownIt = import_module("markdown_it").MarkdownIt(
        "commonmark", {"html": html, "xhtmlOut": False, "maxNesting": MAX_NESTING}
    )
    parser.core.ruler.before("inline", "plain_bombs", _leave_bombs_plain)
    parser.block.ruler.before("table", "count_blocks", _count_blocks)
    parser.inline.ruler.before("text", "count_parts", _count_parts)
    return parser


def _count_blocks(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:
    if len(state.tokens) > MAX_PARTS:
        raise _TooManyParts
    return False


def _count_parts(state: StateInline, _silent: bool) -> bool:
    state.env[_PARTS] += 1
    if state.env[_PARTS] > MAX_PARTS:
        raise _TooManyParts
    return False


def _leave_bombs_plain(state: StateCore) -> None:
    for token in state.tokens:
        is_bomb = len(token.content) > MAX_PARAGRAPH or token.content.count("[") > MAX_BRACKETS
        if token.type == "inline" and is_bomb:
            token.type = "text"


def _attribute(_tag: str, name: str, value: str) -> str | None:
    if name in _NUMBERS:
        return value if _NUMBER.fullmatch(value) else None
    if name == "class":
        return value if _LANGUAGE.fullmatch(value) else None
    if name == "src":
        # Of the schemes of links, only `mailto` cannot be a picture.
        scheme = _SCHEME.match(value.strip())
        return value if scheme is None or scheme.group().lower() in {"http:", "https:"} else None
    return value


def _absolute(base: str, tag: str, name: str, value: str) -> str | None:
    kept = _attribute(tag, name, value)
    if kept is None or name not in {"href", "src"}:
        return kept
    try:
        return urljoin(base, kept)
    except ValueError:
        # It looks like a URL, but is not a valid one.
        return None


def _cleaner(attribute_filter: Callable[[str, str, str], str | None]) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        clean_content_tags={"script", "style"},
        attributes=_ATTRIBUTES,
        attribute_filter=attribute_filter,
        url_schemes=_SCHEMES,
        link_rel="nofollow noopener",
    )


_CLEANER = _cleaner(_attribute)
