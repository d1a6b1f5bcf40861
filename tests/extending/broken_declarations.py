"""Domains that are broken because a declaration lacks something, or is of another type."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import strawberry
import portico
import portico.jobs
from portico import Domain, schema, setting, writes
from portico.store import CollectionSpec, ChangeSource
"""


@dataclass(frozen=True)
class Broken:
    """The source of a domain's module, and what the error says after the name of the package."""

    source: str
    message: str
    name: str = "extra"


FIELD = """
@strawberry.type
class Extra:
    @strawberry.field(description="Extra.")
    def {field}(self) -> str:
        return "extra"

DOMAIN = Domain(name="extra", about="Extra.", {where})
"""
THING = """
THINGS = CollectionSpec("things")

@strawberry.type
class Thing(schema.Node):
    id: strawberry.ID = schema.node_id("Thing", "_id")
    {field}

KIND = schema.Kind.of("Thing", THINGS, {rule})
DOMAIN = Domain(name="extra", about="Extra.", collections=(THINGS,), kinds=(KIND,), {types_of})
"""
THINGS_LIST = """
@strawberry.type
class Things:
    @strawberry.field(description="Things.")
    async def things(self) -> schema.Connection[Thing]: ...

DOMAIN ="""
DECLARATIONS = {
    "a kind without its comma": Broken(
        THING.format(field="", rule="visible_to=schema.Kind.everybody", types_of="types=(Thing,)").replace(
            "(KIND,)", "(KIND)"
        ),
        "cannot be imported: TypeError: `kinds` of the domain extra must be a tuple or a list; got a Kind. "
        "Write a comma after a single element: `(KIND,)`.",
    ),
    "a need without its comma": Broken(
        "DOMAIN = Domain(name='extra', about='Extra.', needs=('catalog'))",
        "cannot be imported: TypeError: `needs` of the domain extra must be a tuple or a list; got a str. ",
    ),
    "an extension without its comma": Broken(
        FIELD.format(field="extra", where="extensions={'Product': (Extra)}"),
        "cannot be imported: TypeError: `extensions['Product']` of the domain extra must be a tuple or a list; got ",
    ),
    "a collection that is a text": Broken(
        "DOMAIN = Domain(name='extra', about='Extra.', collections=('things',))",
        "cannot be imported: TypeError: `collections` of the domain extra has 'things', which is not a CollectionSpec.",
    ),
    "a kind that is its type": Broken(
        FIELD.format(field="extra", where="kinds=(Extra,)"),
        "has <class 'portico_extra.Extra'> among its kinds, which is not a `portico.schema.Kind`.",
    ),
    "a type that is no class": Broken(
        FIELD.format(field="extra", where="queries=(Extra(),)"),
        "cannot be imported: TypeError: `queries` of the domain extra has Extra(), which is not a class.",
    ),
    "error codes that are no mapping": Broken(
        "DOMAIN = Domain(name='extra', about='Extra.', error_codes=('EXTRA',))",
        "cannot be imported: TypeError: `error_codes` of the domain extra must be a dict; got a tuple.",
    ),
    "settings that are no dataclass": Broken(
        """
        class Extra:
            seats: int = 1

        DOMAIN = Domain(name="extra", about="Extra.", settings=Extra)
        """,
        "cannot be imported: TypeError: `settings` of the domain extra must be a dataclass; got ",
    ),
    "a field without a declaration": Broken(
        THING.format(
            field='label: str = strawberry.field(description="Its label.")',
            rule="visible_to=schema.Kind.everybody",
            types_of="types=(Thing,)",
        ),
        "declares the field Thing.label, which neither names its place in the document nor has a resolver. "
        "Declare it with `portico.schema.stored`, `computed`, `related` or `reads`.",
    ),
    "a field of a stored object without a declaration": Broken(
        """
        @strawberry.type
        class Part:
            size: int
        """
        + THING.format(
            field='part: Part = schema.stored(description="Its part.")',
            rule="visible_to=schema.Kind.everybody",
            types_of="types=(Thing,)",
        ).replace("\n", "\n        "),
        "declares the field Part.size, which neither names its place in the document nor has a resolver. ",
    ),
    "an added field without a declaration": Broken(
        """
        @strawberry.type
        class Extra:
            extra: str

        DOMAIN = Domain(name="extra", about="Extra.", extensions={"Category": (Extra,)})
        """,
        "declares the field Category.extra, which neither names its place in the document nor has a resolver. ",
    ),
    "a change source with a path that no change has": Broken(
        "ChangeSource(frozenset({'things'}), {}, ('document key',), print)",
        "cannot be imported: ValueError: `paths` of a change source has 'document key', but a change has no "
        "'document key'. Did you mean documentKey?",
    ),
    "a change source of an unknown collection": Broken(
        """
        SOURCE = ChangeSource(frozenset({"thing"}), {}, ("documentKey",), print)
        DOMAIN = Domain(name="extra", about="Extra.", collections=(CollectionSpec("things"),), events=(SOURCE,))
        """,
        "has a change source of the collection thing, which no served domain declares. Add it to `collections`.",
    ),
    "a subscription without a change source": Broken(
        """
        from collections.abc import AsyncIterator

        @strawberry.type
        class Extra:
            @strawberry.subscription(description="Extra.")
            async def extra(self, info: portico.Info) -> AsyncIterator[str]:
                return await schema.occurrences(info.context, "extra", print)

        DOMAIN = Domain(name="extra", about="Extra.", subscriptions=(Extra,))
        """,
        "declares the subscription extra, but neither it nor a domain that it needs declares a change source. "
        "List the `ChangeSource` of its topic in `events`.",
    ),
    "pages that are not declared": Broken(
        THING.format(field="", rule="visible_to=schema.Kind.everybody", types_of="queries=(Things,)").replace(
            "DOMAIN =", THINGS_LIST
        ),
        "breaks the schema: UnknownPages: ThingConnection lists objects of the kind Thing, but no served domain has "
        "its `Paged` in `pages`.",
    ),
}
