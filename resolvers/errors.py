"""What a caller can act on. Each error names a cause; its attributes are public facts, its text is for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from .documents import Document


class DomainError(Exception):
    """The root of the family. A subclass lists its public facts, so that an answer can be kept and given again.

    One that `passes` is no final answer: it is not kept, and the same call may be made again.
    """

    facts: ClassVar[tuple[str, ...]] = ()
    passes: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def to_record(self) -> dict[str, Any]:
        """The facts as plain values; `from_record` makes the same error of them."""
        return {"message": self.message, **{name: getattr(self, name) for name in self.facts}}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> DomainError:
        error = cls.__new__(cls)
        Exception.__init__(error, record["message"])
        for name, value in record.items():
            setattr(error, name, value)
        return error


def error_type(name: str) -> type[DomainError]:
    """The member of the family with this name, for an answer that was kept."""
    return next(found for found in _all_below(DomainError) if found.__name__ == name)


def _all_below(root: type[DomainError]) -> list[type[DomainError]]:
    return [root, *(found for below in root.__subclasses__() for found in _all_below(below))]


def words_of(kind: str) -> str:
    """The name of a kind as people read it: `content node` for `ContentNode`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()


class NotFound(DomainError):
    """There is no such object, or the viewer may not know of it. `kind` and `key` make up its global id."""

    facts = ("kind", "key")

    def __init__(self, kind: str, key: str | None = None, message: str | None = None) -> None:
        super().__init__(message or f"There is no such {words_of(kind)}.")
        self.kind = kind
        self.key = key


class InvalidInput(DomainError):
    """A value that no retry will make acceptable.

    `path` leads to it, in the words of the caller's function; `within` goes on from there, in the caller's own.
    """

    facts = ("path", "within")

    def __init__(self, message: str, *path: str, within: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.path = list(path)
        self.within = list(within)


class Conflict(DomainError):
    """Somebody else changed the object first. Nothing was written."""

    passes = True


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
    """The nonce is not the present one. `current` is the whole document as it is now."""

    facts = ("current",)

    def __init__(self, current: Document) -> None:
        super().__init__("The product has changed since it was read.")
        self.current = current


class SectionNotEmpty(DomainError):
    def __init__(self) -> None:
        super().__init__("The section still has children.")


class ProductInUse(DomainError):
    def __init__(self) -> None:
        super().__init__("Carts still hold some of this product.")


class CartInactive(DomainError):
    """The cart takes no changes any more. `status` is PENDING, COMPLETE, EXPIRING or EXPIRED."""

    facts = ("status",)

    def __init__(self, status: str) -> None:
        super().__init__(f"The cart is {status.lower()}.")
        self.status = status


class InadequateInventory(DomainError):
    """So many are not to be had. `available` is how many are."""

    facts = ("sku", "available")

    def __init__(self, sku: str, available: int) -> None:
        super().__init__(f"Of {sku!r} only {available} are available.")
        self.sku = sku
        self.available = available


class EmptyCart(DomainError):
    def __init__(self) -> None:
        super().__init__("There is nothing in the cart.")


class PaymentPending(DomainError):
    """Whether the money was taken is not known yet. `cart` is the whole document; it stays locked."""

    facts = ("cart",)
    passes = True

    def __init__(self, cart: Document) -> None:
        super().__init__("The payment has not been answered yet. The same call asks again.")
        self.cart = cart


class PaymentDeclined(DomainError):
    """The payment was refused, for good."""

    def __init__(self, message: str = "The payment was refused.") -> None:
        super().__init__(message)


class InsufficientFunds(DomainError):
    def __init__(self) -> None:
        super().__init__("The account does not hold so much.")


class EditConflict(DomainError):
    """The nonce is not the present one. `current` is the whole node as it is now.

    Of texts: `base_text` is what the caller's nonce stood for, where it is kept; `diff` leads from the current text to
    the caller's; `merged_text` holds both edits, where they do not touch. A photo has none of them.

    It is no final answer: asked again, the same call compares with what is there then.
    """

    facts = ("current", "base_text", "diff", "merged_text")
    passes = True

    def __init__(
        self, current: Document, *, base_text: str | None = None, diff: str = "", merged_text: str | None = None
    ) -> None:
        super().__init__("Somebody else has saved since it was read.")
        self.current = current
        self.base_text = base_text
        self.diff = diff
        self.merged_text = merged_text


class PhotoLocked(DomainError):
    """Somebody else is just uploading this photo. `since` is when that began, UTC."""

    facts = ("since",)
    passes = True

    def __init__(self, since: datetime) -> None:
        super().__init__("Somebody else is just uploading this photo.")
        self.since = since


class UnacceptableFile(DomainError):
    """The file is no picture, or one that is larger than it may be. The text says which."""


class DiscussionFull(DomainError):
    """The document of an embedded discussion has no room for another comment. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("The discussion is full.")


class OperationKeyReused(Exception):
    """The idempotency key belongs to an operation with another input. Nothing was written."""


class OperationUnderWay(Exception):
    """An operation with this idempotency key has been running for longer than a caller waits."""
