"""Fingerprints of inputs: whether two calls with an idempotency key are the same call."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import strawberry
from graphql import GraphQLError

from portico.resolvers import errors

from .context import Context
from .files import Upload, uploads_in

# The name in the metadata of input fields, see `secret_by`.
_HASHED = "portico.hashed"
# What stands for every invalid value of such a field.
_INVALID = "invalid"


def secret_by(hashed: Callable[[Context, Any], str]) -> dict[str, Any]:
    """Returns the metadata of an input field whose value must not be guessed from the stored hash of the input.

    Args:     hashed: returns what stands for the value, e.g. a hash with a secret of the deployment.
    """
    return {_HASHED: hashed}


def fingerprint_of(context: Context, kwargs: Mapping[str, Any], *, with_defaults: bool = False) -> str:
    """Returns a hash of the input, which tells a left out field from null where these have different meanings.

    A field with its default counts as left out. So a version that adds a field to an input has the fingerprints of the
    version before, and a client can repeat a call at either of them.

    Args:     with_defaults: returns the hash that former versions stored, also of fields with their defaults.
    Raises:   BAD_USER_INPUT if orjson cannot encode it, and what the functions of secret fields raise.
    """

    def plain(value: Any) -> Any:
        return _plain(context, value, with_defaults=with_defaults)

    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
    try:
        text = orjson.dumps(kwargs, default=plain, option=options)
    except TypeError as error:
        if isinstance(error.__cause__, errors.DomainError):
            raise error.__cause__ from None
        raise GraphQLError(
            "The input is nested too deeply, or has an integer of more than 64 bits.",
            extensions={"code": "BAD_USER_INPUT"},
        ) from None
    return hashlib.sha256(text).hexdigest()


async def require_same_files(kwargs: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Raises OperationKeyReused if the operation has stored a complete file and the call has another file."""
    checksum = record.get("notes", {}).get("checksum")
    if checksum is not None:
        for upload in uploads_in(kwargs):
            digest = hashlib.sha256()
            async for piece in upload.read():
                digest.update(piece)
            if digest.hexdigest() != checksum:
                raise errors.OperationKeyReused


def _plain(context: Context, value: Any, *, with_defaults: bool) -> Any:
    if isinstance(value, strawberry.Some):
        return {"some": value.value}
    if isinstance(value, Upload):
        # The content is not known before the file has arrived.
        return "upload"
    if dataclasses.is_dataclass(value):
        given = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {
            field.name: _hashed(context, field, one)
            for field, one in given
            if one is not strawberry.UNSET and (with_defaults or not _is_default(field, one))
        }
    raise TypeError(type(value).__name__)


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(value == field.default)


def _hashed(context: Context, field: dataclasses.Field[Any], value: Any) -> Any:
    hashed = field.metadata.get(_HASHED)
    if hashed is None or value is None:
        return value
    try:
        return hashed(context, value)
    except errors.InvalidInput:
        # The mutation refuses it, with what else is invalid.
        return _INVALID
