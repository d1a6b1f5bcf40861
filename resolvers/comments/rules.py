"""The texts that a comment may have."""

from __future__ import annotations

import re

from portico.resolvers.errors import InvalidInput
from portico.resolvers.text import require_text

# Characters.
LONGEST = 10_000
MAX_LINES = 500
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def require_comment_text(value: str) -> str:
    """The text with line feeds at the ends of its lines, and without blanks around it.

    Raises InvalidInput where it is longer than 10,000 characters or 500 lines, or what `require_text` refuses.
    """
    text = require_text(_LINE_ENDS.sub("\n", value), "text", longest=LONGEST)
    if text.count("\n") >= MAX_LINES:
        raise InvalidInput(f"Text has {text.count(chr(10)) + 1:,} lines; {MAX_LINES} are allowed.", "text")
    return text
