"""Why a write of the catalog is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.resolvers.errors import DomainError


class SkuTaken(DomainError):
    facts = ("sku",)
    is_taken = True
    sku: str

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


class ProductInUse(DomainError):
    def __init__(self) -> None:
        super().__init__("Carts still hold units of this product.")
