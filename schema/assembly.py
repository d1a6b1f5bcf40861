"""Makes one schema of what the served domains declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import strawberry
from strawberry.types.base import StrawberryObjectDefinition, get_object_definition
from strawberry.types.field import StrawberryField
from strawberry.types.private import is_private

from portico.resolvers.domains import Domains, InvalidDomains

from .nodes import Kind

# The types that domains add root fields to, by the name of the declaration.
_ROOTS = {"Query": "queries", "Mutation": "mutations", "Subscription": "subscriptions"}


class AssembledSchema(strawberry.Schema):
    """A schema in which domains add fields to types of others."""

    def __init__(self, *, additions: Mapping[str, Sequence[StrawberryField]], **options: Any) -> None:
        # Strawberry asks for fields while it is built.
        self._additions = additions
        super().__init__(**options)

    def get_fields(self, type_definition: StrawberryObjectDefinition) -> list[StrawberryField]:
        names = (type_definition.name, *(interface.name for interface in type_definition.interfaces))
        added = {field.python_name: field for name in names for field in self._additions.get(name, ())}
        return [*type_definition.fields, *added.values()]


def require_rules(domains: Domains) -> None:
    """Raises InvalidDomains for a kind that does not say who may see its objects."""
    for domain in domains.all:
        for kind in domain.kinds:
            if not kind.has_rule:
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} declares the kind {kind.name} without a rule of visibility. "
                    "Give it `visible_to` (`everybody`, if all callers may see its objects) or `within`."
                )


def additions_of(domains: Domains) -> dict[str, list[StrawberryField]]:
    """The fields that domains add, by the name of the type. Raises InvalidDomains where two add the same one."""
    found: dict[str, list[StrawberryField]] = {}
    owners: dict[tuple[str, str], str] = {}
    for domain, type_name, mixin in _mixins(domains):
        for field in _shown(mixin):
            owner = owners.setdefault((type_name, field.python_name), domain)
            if owner != domain:
                raise InvalidDomains(
                    f"{domains.source_of(domain)} adds the field {field.python_name} to {type_name}, "
                    f"which {domains.source_of(owner)} has added."
                )
            found.setdefault(type_name, []).append(field)
    return found


def _shown(mixin: type) -> Iterator[StrawberryField]:
    definition = get_object_definition(mixin, strict=True)
    return (field for field in definition.fields if not is_private(field.type))


def _mixins(domains: Domains) -> Iterator[tuple[str, str, type]]:
    """The types whose fields are added: with the domain that adds them, and the type that gets them."""
    kinds: list[Kind] = [kind for domain in domains.all for kind in domain.kinds]
    for domain in domains.all:
        for root, declared in _ROOTS.items():
            yield from ((domain.name, root, mixin) for mixin in getattr(domain, declared))
        for type_name, mixins in domain.extensions.items():
            yield from ((domain.name, type_name, mixin) for mixin in mixins)
        if domain.kind_extensions is not None:
            for kind in kinds:
                mixin = domain.kind_extensions(kind)
                if mixin is not None:
                    yield from ((domain.name, name, mixin) for name in dict.fromkeys((kind.name, *kind.types)))
