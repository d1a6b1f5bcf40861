"""Checks addresses of web pages that callers enter."""

from __future__ import annotations

from urllib.parse import urlsplit

from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import require_text

MAX_URL = 2_000


def require_web_url(value: str, *path: str) -> str:
    """Returns the URL without surrounding blanks. Raises InvalidInput unless it is http or https, with a host.

    Clients show it as a link, so `javascript:` and `data:` are refused, and so are blanks and control characters, which
    browsers ignore in front of and within a scheme.
    """
    url = require_text(value, *path, longest=MAX_URL)
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_web = False
    if not is_web or any(character.isspace() for character in url) or "\\" in url:
        text = "The URL must begin with http:// or https://, and must have a host and no blanks."
        raise InvalidInput(text, *path, code=InvalidInput.WRONG_FORMAT)
    return url
