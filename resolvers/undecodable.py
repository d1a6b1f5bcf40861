"""Stored text that is not valid UTF-8, which other programs can write.

The driver would fail to decode the whole batch. In an operation, its reads keep each invalid byte as a lone surrogate
(`surrogateescape`, PEP 383), and note in the meter of the operation that there is such text. So the text is an error at
its place only, and an operation without such text pays nothing. The same text goes back to MongoDB as the bytes that it
was: a cursor, and a condition on the values behind it, contain them unchanged.

Outside of an operation, and in the reads of a write, decoding fails as before. A write must not store such text again
as something else.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

import bson
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument

from .answer_bounds import METER

# The name of the error handler, for `unicode_decode_error_handler`.
KEEP_BYTES = "portico.keep_bytes"
_ESCAPE = "surrogateescape"
_OPTIONS = DEFAULT_RAW_BSON_OPTIONS.with_options(unicode_decode_error_handler=_ESCAPE)
_STRING, _DOCUMENT, _ARRAY = b"\x02", b"\x03", b"\x04"

_escape = codecs.lookup_error(_ESCAPE)


def _keep_bytes(error: UnicodeError) -> tuple[str | bytes, int]:
    meter = METER.get()
    if meter is None:
        raise error
    meter.has_undecodable = True
    return _escape(error)


codecs.register_error(KEEP_BYTES, _keep_bytes)


def is_undecodable(value: object) -> bool:
    """Returns whether a value is, or contains, text that was stored as invalid UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return True
        return False
    if isinstance(value, Mapping):
        return any(is_undecodable(name) or is_undecodable(inner) for name, inner in value.items())
    return isinstance(value, list | tuple) and any(map(is_undecodable, value))


def bytes_of(text: str) -> bytes:
    """Returns the bytes of a text as they are stored."""
    return text.encode(errors=_ESCAPE)


def text_of(stored: bytes) -> str:
    """Returns the text that is stored as these bytes, as an operation reads it."""
    return stored.decode(errors=_ESCAPE)


def sendable(condition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a document that the driver sends as it is: text that it cannot encode is encoded already."""
    return RawBSONDocument(_encoded(condition), _OPTIONS) if is_undecodable(condition) else condition


def _encoded(document: Mapping[str, Any]) -> bytes:
    elements = b"".join(_element(bytes_of(name), value) for name, value in document.items())
    return _with_size(elements, 5)


def _element(name: bytes, value: Any) -> bytes:
    if not is_undecodable(value):
        # Everything between the size of the document, with its type and an empty name, and the end of the document.
        encoded = bson.encode({"": value})[4:-1]
        return encoded[:1] + name + encoded[1:]
    if isinstance(value, str):
        return _STRING + name + b"\0" + _with_size(bytes_of(value), 1)
    if isinstance(value, Mapping):
        return _DOCUMENT + name + b"\0" + _encoded(value)
    return _ARRAY + name + b"\0" + _encoded({str(number): inner for number, inner in enumerate(value)})


def _with_size(content: bytes, more: int) -> bytes:
    """Returns the content with its end, behind its size, which counts `more` bytes in addition."""
    return (len(content) + more).to_bytes(4, "little") + content + b"\0"
