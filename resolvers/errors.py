"""Errors that a caller can act on. The type is the cause, the attributes are facts, the message is for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

_OWN = "portico."
# What is wrong with a value: it is empty, or beyond its bounds as a number, a text or a list; it has characters or a
# form that it must not have; or anything else, which the message says.
EMPTY, OUT_OF_RANGE, TOO_LONG, TOO_MANY = "EMPTY", "OUT_OF_RANGE", "TOO_LONG", "TOO_MANY"
FORBIDDEN_CHARACTER, WRONG_FORMAT, INVALID = "FORBIDDEN_CHARACTER", "WRONG_FORMAT", "INVALID"


class DomainError(Exception):
    """The base of all domain errors. A subclass lists its public `facts`, so that it can be stored as an answer.

    If `is_retryable`, the error is not a final answer: it is not stored, and the same call can be retried.
    """

    facts: ClassVar[tuple[str, ...]] = ()
    is_retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

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

    def __init__(self, slug: str) -> None:
        super().__init__(f"The slug {slug!r} is taken.")
        self.slug = slug


class SkuTaken(DomainError):
    facts = ("sku",)

    def __init__(self, sku: str) -> None:
        super().__init__(f"The SKU {sku!r} is taken.")
        self.sku = sku


class CategoryCycle(DomainError):
    def __init__(self) -> None:
        super().__init__("A category cannot be moved below itself.")


class CategoryNotEmpty(DomainError):
    def __init__(self) -> None:
        super().__init__("The category still has children or products.")


class ProductEditConflict(DomainError):
    """The nonce is outdated. `current` is the whole current document."""

    facts = ("current",)

    def __init__(self, current: Mapping[str, Any]) -> None:
        super().__init__("The product has changed since it was read.")
        self.current = current


class SectionNotEmpty(DomainError):
    def __init__(self) -> None:
        super().__init__("The section still has children.")


class ProductInUse(DomainError):
    def __init__(self) -> None:
        super().__init__("Carts still hold units of this product.")


class CartInactive(DomainError):
    """The cart can no longer be changed. `status` is PENDING, COMPLETE, EXPIRING or EXPIRED."""

    facts = ("status",)

    def __init__(self, status: str) -> None:
        super().__init__(f"The cart is {status.lower()}.")
        self.status = status


class InadequateInventory(DomainError):
    """Stock does not have that many units. `available` is the number that it has."""

    facts = ("sku", "available")

    def __init__(self, sku: str, available: int) -> None:
        super().__init__(f"Stock does not have enough units of {sku!r}: {available} available.")
        self.sku = sku
        self.available = available


class EmptyCart(DomainError):
    def __init__(self) -> None:
        super().__init__("The cart is empty.")


class PaymentPending(DomainError):
    """The outcome of the payment is not known yet. `cart` is the whole document; it stays locked."""

    facts = ("cart",)
    is_retryable = True

    def __init__(self, cart: Mapping[str, Any]) -> None:
        super().__init__("The outcome of the payment is not known yet. Repeat the call with the same key.")
        self.cart = cart


class PaymentDeclined(DomainError):
    """The payment was refused. This is final."""

    def __init__(self, message: str = "The payment was refused.") -> None:
        super().__init__(message)


class InsufficientFunds(DomainError):
    def __init__(self) -> None:
        super().__init__("The account does not hold enough money.")


class EditConflict(DomainError):
    """The nonce is outdated. `current` is the whole current node.

    For texts: `base_text` is the text at the caller's nonce, if it is still stored; `diff` leads from the current text
    to the caller's; `merged_text` combines both edits if they do not overlap. A photo has none of them.

    A retry of the call compares with the node as it is then.
    """

    facts = ("current", "base_text", "diff", "merged_text")
    is_retryable = True

    def __init__(
        self,
        current: Mapping[str, Any],
        *,
        base_text: str | None = None,
        diff: str = "",
        merged_text: str | None = None,
    ) -> None:
        super().__init__("Somebody else has saved the node since you read it.")
        self.current = current
        self.base_text = base_text
        self.diff = diff
        self.merged_text = merged_text


class PhotoLocked(DomainError):
    """Another caller is uploading this photo. `since` is when the upload began, UTC."""

    facts = ("since",)
    is_retryable = True

    def __init__(self, since: datetime) -> None:
        super().__init__("Somebody else is uploading this photo. Try again later.")
        self.since = since


class UnacceptableFile(DomainError):
    """The file is not a picture, or the picture is too large. The message says which."""


class DiscussionFull(DomainError):
    """The document of an embedded discussion has no room for another comment. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("The discussion is full.")


class NotEnough(DomainError):
    """The inventory does not hold that many of the item. `available` is the number that it holds."""

    facts = ("available",)

    def __init__(self, item_id: str, available: int) -> None:
        super().__init__(f"The inventory does not hold enough of {item_id!r}: {available:,} available.")
        self.available = available


class OperationKeyReused(Exception):
    """The idempotency key was used for an operation with another input. Nothing was written."""


class OperationUnderWay(Exception):
    """Another call with this idempotency key has been running for longer than this call may wait."""


class RateLimited(Exception):
    """The member has done too much in this minute or hour. Nothing was written. `seconds` says when to retry."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds
