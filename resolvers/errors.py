"""Errors that a caller can act on. The type is the cause, the attributes are facts, the message is for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

_OWN = "portico."
# What is wrong with a value: it is empty, or beyond its bounds as a number, a text or a list; it has characters or a
# form that it must not have; or anything else, which the message says.
EMPTY, OUT_OF_RANGE, TOO_LONG, TOO_MANY = "EMPTY", "OUT_OF_RANGE", "TOO_LONG", "TOO_MANY"
FORBIDDEN_CHARACTER, WRONG_FORMAT, INVALID = "FORBIDDEN_CHARACTER", "WRONG_FORMAT", "INVALID"


class DomainError(Exception):
    """The base of all domain errors. A subclass lists its public `facts`, so that it can be stored as an answer.

    The keyword arguments of an instance become its attributes.

    If `is_retryable`, the error is not a final answer: it is not stored, and the same call can be retried. If
    `is_taken`, another object has the value. An import then tries again, because that object may be its own by now.
    """

    facts: ClassVar[tuple[str, ...]] = ()
    is_retryable: ClassVar[bool] = False
    is_taken: ClassVar[bool] = False

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.__dict__.update(facts)

    def to_record(self) -> dict[str, Any]:
        """Returns the facts as plain values. `from_record` restores the error from them."""
        return {"message": self.message, **{name: getattr(self, name) for name in self.facts}}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> DomainError:
        error = cls.__new__(cls)
        Exception.__init__(error, record["message"])
        for name, value in record.items():
            setattr(error, name, value)
        return error


def name_of(error: type[DomainError]) -> str:
    """Returns the name by which an error type is stored: for other packages, with the name of its module."""
    module = error.__module__
    return error.__name__ if module.startswith(_OWN) else f"{module}.{error.__qualname__}"


def error_type(name: str) -> type[DomainError]:
    """Returns the error type that is stored by this name. Raises LookupError if its package is no longer installed."""
    known = _all_below(DomainError)
    # An earlier version has stored the errors of other packages without their modules.
    named = [found for found in known if name_of(found) == name] or [found for found in known if found.__name__ == name]
    if not named:
        raise LookupError(f"There is no error type {name}.")
    return named[0]


def _all_below(root: type[DomainError]) -> list[type[DomainError]]:
    return [root, *(found for below in root.__subclasses__() for found in _all_below(below))]


def words_of(kind: str) -> str:
    """Returns the readable name of a kind: `content node` for `ContentNode`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()


def one_of(kind: str) -> str:
    """Returns the readable name of a kind with its article: `an event` for `Event`."""
    words = words_of(kind)
    # The u of `user` and `unit` is spoken like you.
    return f"{'an' if re.match('[aeio]|u(?!se|ni)', words) else 'a'} {words}"


class NotFound(DomainError):
    """There is no such object, or the viewer may not see it. `kind` and `key` make up its global id."""

    facts = ("kind", "key")

    def __init__(self, kind: str, key: str | None = None, message: str | None = None) -> None:
        super().__init__(message or f"There is no such {words_of(kind)}.")
        self.kind = kind
        self.key = key


class InvalidInput(DomainError):
    """A value that no retry makes valid.

    `path` locates it by the parameter names of the called function. `within` continues the path with keys of the
    caller's own data. `code` says what is wrong, and `least` and `most` are the bounds that the value is beyond.
    """

    facts = ("path", "within", "code", "least", "most")
    # Also of errors that an earlier version has stored.
    code = INVALID
    least: int | None = None
    most: int | None = None

    def __init__(
        self,
        message: str,
        *path: str,
        within: Sequence[str] = (),
        code: str = INVALID,
        least: int | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = list(path)
        self.within = list(within)
        self.code, self.least, self.most = code, least, most

    def below(self, *path: str) -> InvalidInput:
        """Returns the same error of a value that is at this path of a larger input."""
        bounds: dict[str, Any] = {"code": self.code, "least": self.least, "most": self.most}
        return InvalidInput(self.message, *path, *self.path, within=self.within, **bounds)


class Conflict(DomainError):
    """Another caller changed the object first. Nothing was written."""

    is_retryable = True


class SlugTaken(DomainError):
    facts = ("slug",)
    is_taken = True
    slug: str

    def __init__(self, slug: str) -> None:
        super().__init__(f"The slug {slug!r} is taken.")
        self.slug = slug


class OperationKeyReused(Exception):
    """The idempotency key was used for an operation with another input. Nothing was written."""


class OperationUnderWay(Exception):
    """Another call with this idempotency key has been running for longer than this call may wait."""


class RateLimited(Exception):
    """The member has done too much in this minute or hour. Nothing was written. `seconds` says when to retry."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds
