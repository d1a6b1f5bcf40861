"""Rules for the texts of comments."""

from __future__ import annotations

import re

from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import require_text

# Characters.
LONGEST = 10_000
MAX_LINES = 500
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def require_comment_text(value: str) -> str:
    """Returns the text with line feeds as line ends, and without surrounding white space.

    Raises InvalidInput if it has more than 10,000 characters or 500 lines, or `require_text` refuses it.
    """
    text = require_text(_LINE_ENDS.sub("\n", value), "text", longest=LONGEST)
    if text.count("\n") >= MAX_LINES:
        message = f"The text has {text.count(chr(10)) + 1:,} lines; up to {MAX_LINES} are allowed."
        raise InvalidInput(message, "text", code=InvalidInput.TOO_MANY, most=MAX_LINES)
    return text
