"""The custom scalars of the schema."""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NewType, TypeVar

import strawberry
from graphql import (
    GraphQLError,
    ListValueNode,
    ObjectValueNode,
    Undefined,
    ValueNode,
    value_from_ast_untyped,
)
from strawberry.types.scalar import ScalarDefinition

from .files import Upload, parse_upload, parse_upload_literal, serialize_upload

BIG = 2**53 - 1
_BOUND = f"`BigInt` must be between {-BIG} and {BIG}"

BigInt = NewType("BigInt", int)
JSON = NewType("JSON", object)
_Value = TypeVar("_Value")
_SHOWN_DIGITS = 40

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:[0-5]\d)")


def format_instant(value: object) -> str:
    """Formats an instant as RFC 3339 in UTC with milliseconds. A naive time, as the driver returns it, is in UTC."""
    if not isinstance(value, datetime):
        raise GraphQLError(f"DateTime cannot represent {type(value).__name__}.")
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z".rjust(24, "0")


def parse_instant(value: object) -> datetime:
    """Parses an instant to a naive time in UTC with milliseconds, as it is stored."""
    if not isinstance(value, str) or _RFC3339.fullmatch(value) is None:
        raise GraphQLError("`DateTime` must be an RFC 3339 string with a zone, for example 2012-03-09T20:55:36.000Z.")
    try:
        instant = datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise GraphQLError(f"`DateTime` must be an existing date and time; got {value!r}.") from None
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000, tzinfo=None)


def check_big_int(value: object) -> int:
    if isinstance(value, float) and math.isinf(value):
        raise GraphQLError(f"The number is too {'small' if value < 0 else 'large'}: {_BOUND}.")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise GraphQLError(f"BigInt cannot represent a value that is not a whole number: {_short(value)}.")
    if not -BIG <= value <= BIG:
        raise GraphQLError(out_of_range(str(value), _BOUND))
    return value


def out_of_range(digits: str, bound: str) -> str:
    """Returns the message for an integer that is too large or too small. Shortens a long integer."""
    sign = "-" if digits.startswith("-") else ""
    count = len(digits) - len(sign)
    shown = digits if count <= _SHOWN_DIGITS else f"{digits[: 20 + len(sign)]}… ({count:,} digits)"
    return f"The integer {shown} is too {'small' if sign else 'large'}: {bound}."


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004


def _literal_of(parse: Callable[[object], _Value]) -> Callable[..., _Value]:
    """Returns a function that parses literals as `parse` does values, and gives its errors the place of the literal."""

    def parse_literal(node: ValueNode, variables: dict[str, Any] | None = None) -> _Value:
        try:
            return parse(value_from_ast_untyped(node, variables))
        except GraphQLError as error:
            raise GraphQLError(error.message, node) from None

    return parse_literal


def _parse_json_literal(node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
    """Returns the value of a literal. A field is left out if its variable is left out, as in any input object."""
    if isinstance(node, ObjectValueNode):
        fields = {field.name.value: _parse_json_literal(field.value, variables) for field in node.fields}
        return {name: value for name, value in fields.items() if value is not Undefined}
    if isinstance(node, ListValueNode):
        items = [_parse_json_literal(item, variables) for item in node.values]
        return [None if item is Undefined else item for item in items]
    value = value_from_ast_untyped(node, variables)
    if isinstance(value, float) and not math.isfinite(value):
        raise GraphQLError("`JSON` cannot represent a number that exceeds a 64-bit float.", node)
    return value


SCALARS: dict[object, ScalarDefinition] = {
    datetime: strawberry.scalar(
        name="DateTime",
        description="An instant in UTC in RFC 3339 format with milliseconds, for example `2012-03-09T20:55:36.000Z`.",
        serialize=format_instant,
        parse_value=parse_instant,
        parse_literal=_literal_of(parse_instant),
        specified_by_url="https://www.rfc-editor.org/rfc/rfc3339",
    ),
    BigInt: strawberry.scalar(
        name="BigInt",
        description="An integer of up to 53 bits, serialized as a JSON number.",
        serialize=check_big_int,
        parse_value=check_big_int,
        parse_literal=_literal_of(check_big_int),
        # The integers of 53 bits that every JSON implementation agrees on.
        specified_by_url="https://www.rfc-editor.org/rfc/rfc7493#section-2.2",
    ),
    JSON: strawberry.scalar(
        name="JSON",
        description="Any JSON value. Used only if the caller chooses the shape of a document.",
        serialize=lambda value: value,
        parse_value=lambda value: value,
        parse_literal=_parse_json_literal,
        specified_by_url="https://www.rfc-editor.org/rfc/rfc8259",
    ),
    Upload: strawberry.scalar(
        name="Upload",
        description="A file sent as described by the GraphQL multipart request specification.",
        serialize=serialize_upload,
        parse_value=parse_upload,
        parse_literal=parse_upload_literal,
        specified_by_url="https://github.com/jaydenseric/graphql-multipart-request-spec",
    ),
}
