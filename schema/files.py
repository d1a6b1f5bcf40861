"""Files in a request."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Any

import strawberry
from graphql import GraphQLError, ValueNode

_HOW = (
    "Send a file as the GraphQL multipart request specification describes: null as the value of the argument, and the "
    "file as a part of the body."
)


class Upload(ABC):
    """A file that is still arriving. Its bytes can be read once, in order."""

    @abstractmethod
    def read(self) -> AsyncIterator[bytes]:
        """Returns the bytes, in pieces of any size. Raises a GraphQLError with a code if the file is incomplete."""


def parse_upload(value: object) -> Upload:
    if not isinstance(value, Upload):
        raise GraphQLError(_HOW)
    return value


def parse_upload_literal(node: ValueNode, _variables: Any = None) -> Upload:
    raise GraphQLError(_HOW, node)


def serialize_upload(_value: object) -> object:
    raise GraphQLError("A file cannot be part of a response.")


def uploads_in(value: Any) -> Iterator[Upload]:
    """Yields all files in an input."""
    if isinstance(value, Upload):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from uploads_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from uploads_in(item)
    elif isinstance(value, strawberry.Some):
        yield from uploads_in(value.value)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from uploads_in(getattr(value, field.name))
