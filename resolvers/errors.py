"""Errors that a caller can act on. The type is the cause, the attributes are facts, the message is for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# The most invalid values that one error names.
MAX_NAMED = 100
# What a failed check returns. Nothing uses it, because the end of the block raises.
_REFUSED: Any = None
_OWN = "portico."


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
    caller's own data. `code` says what is wrong, `least` and `most` are the bounds that the value is beyond, and
    `pattern` is a regular expression that it must match. `others` are the other invalid values of the same input.
    """

    # The codes: the value is missing or empty; beyond its bounds as a number, a text, a list or a tree; it has
    # characters, a form or a type that it must not have; it names nothing that there is, or the same thing twice; it
    # does not go with another value of the input, or with the object; or anything else, which the message says.
    REQUIRED, EMPTY, OUT_OF_RANGE = "REQUIRED", "EMPTY", "OUT_OF_RANGE"
    TOO_LONG, TOO_MANY, TOO_FEW, TOO_DEEP = "TOO_LONG", "TOO_MANY", "TOO_FEW", "TOO_DEEP"
    FORBIDDEN_CHARACTER, WRONG_FORMAT, WRONG_TYPE = "FORBIDDEN_CHARACTER", "WRONG_FORMAT", "WRONG_TYPE"
    UNKNOWN, DUPLICATE, NOT_ALLOWED, INVALID = "UNKNOWN", "DUPLICATE", "NOT_ALLOWED", "INVALID"

    facts = ("path", "within", "code", "least", "most", "pattern")
    # Also of errors that an earlier version has stored.
    code = INVALID
    least: int | None = None
    most: int | None = None
    pattern: str | None = None
    others: Sequence[InvalidInput] = ()

    def __init__(
        self,
        message: str,
        *path: str,
        within: Sequence[str] = (),
        code: str = INVALID,
        least: int | None = None,
        most: int | None = None,
        pattern: str | None = None,
        others: Sequence[InvalidInput] = (),
    ) -> None:
        super().__init__(message)
        self.path = list(path)
        self.within = list(within)
        self.code, self.least, self.most, self.pattern = code, least, most, pattern
        self.others = others

    @staticmethod
    def collect() -> Checks:
        """Returns a block that checks all values of an input, and refuses all invalid ones at once.

        with InvalidInput.collect() as check:
            name = check(require_text, name, "name", longest=200)
            slug = check(require_slug, slug, "slug")
        """
        return Checks()

    def each(self) -> list[InvalidInput]:
        """Returns the error of each invalid value."""
        return [self, *self.others]

    def below(self, *path: str) -> InvalidInput:
        """Returns the same error of an input that is at this path of a larger one."""
        bounds: dict[str, Any] = {"code": self.code, "least": self.least, "most": self.most, "pattern": self.pattern}
        others = [other.below(*path) for other in self.others]
        return InvalidInput(self.message, *path, *self.path, within=self.within, others=others, **bounds)

    def to_record(self) -> dict[str, Any]:
        return {**super().to_record(), "others": [other.to_record() for other in self.others]}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> DomainError:
        others = [cls.from_record(other) for other in record.get("others", ())]
        return super().from_record({**record, "others": others})


class Checks:
    """Calls checks, and raises one InvalidInput for all invalid values at the end of the block.

    A check is a function that raises InvalidInput. Its call then returns None, so the block must not use the value. A
    check that needs several values comes after the block, or is one function with the checks that it needs.
    """

    # Each row of a batch has its own.
    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[InvalidInput] = []

    def __call__(self, check: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return check(*args, **kwargs)
        except InvalidInput as error:
            self._found += error.each()
        refused: R = _REFUSED
        return refused

    def refuse(self, found: InvalidInput) -> None:
        """Notes an invalid value."""
        self._found += found.each()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._found and (error is None or isinstance(error, InvalidInput)):
            if error is not None:
                self._found += error.each()
            raise self._together() from None

    def _together(self) -> InvalidInput:
        """Returns one error for what was found, and forgets it: the frames of an error must not reference the error."""
        first, *others = self._found
        self._found = []
        for other in others:
            other.others, other.__traceback__ = (), None
        first.others = others[: MAX_NAMED - 1]
        return first.with_traceback(None)


class Conflict(DomainError):
    """Another caller changed the object first. Nothing was written.

    `about` has what a domain shows of the conflict; None for nothing.
    """

    is_retryable = True
    about: Mapping[str, Any] | None = None


class SlugTaken(DomainError):
    facts = ("slug",)
    is_taken = True
    slug: str

    def __init__(self, slug: str) -> None:
        super().__init__(f"The slug {slug!r} is taken.")
        self.slug = slug


class UnacceptableFile(DomainError):
    """The file is not a picture, or the picture is too large. The message says which."""


class OperationRefused(Exception):
    """The operation is refused, by an entry in `errors`. It is not stored as an answer.

    A subclass has the `code` of the entry. The keyword arguments of an instance are its further `extensions`.
    """

    code: ClassVar[str]

    def __init__(self, message: str, **extensions: Any) -> None:
        super().__init__(message)
        self.extensions = {"code": self.code, **extensions}


class OperationKeyReused(OperationRefused):
    """The idempotency key was used for an operation with another input. Nothing was written."""

    code = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self) -> None:
        super().__init__("The idempotency key was used before with another input. Use a new key.")


class OperationUnderWay(OperationRefused):
    """Another call with this idempotency key has been running for longer than this call may wait."""

    code = "OPERATION_UNDER_WAY"

    def __init__(self) -> None:
        super().__init__(
            "Another operation with this idempotency key is still in progress. Retry later with the same key."
        )
