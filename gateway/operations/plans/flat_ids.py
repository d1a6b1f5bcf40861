"""The source text that makes the `id` of an object. A page has dozens of them, so the compiled functions call nothing.

`Kind.encode_id` makes the same ids.
"""

from __future__ import annotations

from binascii import b2a_base64, hexlify
from typing import Any

from portico.resolvers.documents import DocumentId
from portico.schema.kinds import PADDING, URL_SAFE

# How many bytes become four characters.
_GROUP = 3
_DIGITS = 24


def id_expression(names: dict[str, Any], kind: str, path: str, document: str) -> str:
    """Returns the expression of the id whose key is at this path of the document. Adds what it needs to `names`."""
    names |= {"b2a": b2a_base64, "hexlify": hexlify, "DocumentId": DocumentId, "SAFE": URL_SAFE, "PAD": PADDING}
    key, head = f"{document}[{path!r}]", f"{kind}:"
    if not (kind.isascii() and kind.isidentifier()):
        return _of_any_key(head, key)
    # Neither such a name nor the digits of a DocumentId make a character that must be replaced.
    padding = -(len(head) + _DIGITS) % _GROUP
    end = f"[:-{padding}]" if padding else ""
    of_document = f"b2a({head.encode()!r} + hexlify(key.binary), newline=False).decode(){end}"
    return f"({of_document} if (key := {key}).__class__ is DocumentId else {_of_any_key(head, 'key')})"


def _of_any_key(head: str, key: str) -> str:
    return f"b2a(({head!r} + str({key})).encode()).translate(SAFE, PAD).decode()"
