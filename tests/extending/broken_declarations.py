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


_EXTRA = """
@strawberry.type
class Extra:
    @strawberry.field(description="Extra.")
    def {field}(self) -> str:
        return "extra"

DOMAIN = Domain(name="extra", about="Extra.", {where})
"""
_THING = """
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


def domain(declared: str) -> str:
    """The source of a domain with this declaration alone."""
    return f"DOMAIN = Domain(name='extra', about='Extra.', {declared})"


def extra(declared: str, *, field: str = "extra") -> str:
    """The source of a domain with this declaration, and the type `Extra` with one field."""
    return _EXTRA.format(field=field, where=declared)


def thing(field: str = "", *, rule: str = "visible_to=schema.Kind.everybody", types_of: str = "types=(Thing,)") -> str:
    """The source of a domain with the kind `Thing`, its rule of visibility, and its type with another field."""
    return _THING.format(field=field, rule=rule, types_of=types_of)


DECLARATIONS = {
    "a kind without its comma": Broken(
        thing().replace("(KIND,)", "(KIND)"),
        "cannot be imported: TypeError: `kinds` of the domain extra must be a tuple or a list; got a Kind. "
        "Write a comma after a single element: `(KIND,)`.",
    ),
    "a need without its comma": Broken(
        domain("needs=('catalog')"),
        "cannot be imported: TypeError: `needs` of the domain extra must be a tuple or a list; got a str. ",
    ),
    "an extension without its comma": Broken(
        extra("extensions={'Product': (Extra)}"),
        "cannot be imported: TypeError: `extensions['Product']` of the domain extra must be a tuple or a list; got ",
    ),
    "a collection that is a text": Broken(
        domain("collections=('things',)"),
        "cannot be imported: TypeError: `collections` of the domain extra has 'things', which is not a CollectionSpec.",
    ),
    "a kind that is its type": Broken(
        extra("kinds=(Extra,)"),
        "has <class 'portico_extra.Extra'> among its kinds, which is not a `portico.schema.Kind`.",
    ),
    "a type that is no class": Broken(
        extra("queries=(Extra(),)"),
        "cannot be imported: TypeError: `queries` of the domain extra has Extra(), which is not a class.",
    ),
    "error codes that are no mapping": Broken(
        domain("error_codes=('EXTRA',)"),
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
    "a domain without a description": Broken(
        "DOMAIN = Domain(name='extra', about='')",
        "cannot be imported: ValueError: the domain extra has an empty `about`. Describe it.",
    ),
    "a command without a description": Broken(
        domain("commands=(portico.jobs.Command('remind', ' ', print),)"),
        "cannot be imported: ValueError: the command remind has an empty `about`. Describe it.",
    ),
    "a unique index beside the shard key": Broken(
        """
        from pymongo import IndexModel

        INDEX = IndexModel([("title", 1), ("copy", 1)], unique=True)
        CollectionSpec("loans", shard_key={"member": 1}, indexes=[INDEX])
        """,
        "cannot be imported: ValueError: the unique index of title, copy of the collection loans does not begin with "
        "the shard key, member. MongoDB would not shard the collection.",
    ),
    "a setting without a default": Broken(
        """
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Extra:
            loan_days: float

        DOMAIN = Domain(name="extra", about="Extra.", settings=Extra)
        """,
        "cannot be imported: TypeError: `settings` of the domain extra has the field loan_days without a default and a "
        "documentation. Declare it with `portico.setting`.",
    ),
    "a setting that no text is": Broken(
        """
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Extra:
            loan_days: list[int] = setting((), "The days.")

        DOMAIN = Domain(name="extra", about="Extra.", settings=Extra)
        """,
        "refuses its settings: TypeError: the setting loan_days has the type list[int], which no setting has.",
    ),
    "a field without a declaration": Broken(
        thing('label: str = strawberry.field(description="Its label.")'),
        "declares the field Thing.label, which neither names its place in the document nor has a resolver. "
        "Declare it with `portico.schema.stored`, `computed`, `related` or `reads`.",
    ),
    "a field of a stored object without a declaration": Broken(
        """
        @strawberry.type
        class Part:
            size: int
        """
        + thing('part: Part = schema.stored(description="Its part.")').replace("\n", "\n        "),
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
    "a change source of updates that reads the document": Broken(
        "ChangeSource(frozenset({'things'}), {'operationType': 'update'}, ('fullDocument.owner',), print)",
        "cannot be imported: ValueError: a change source of the operation update has 'fullDocument.owner', but such a "
        "change has no fullDocument. Let each update set what the event needs, and read it from updateDescription.",
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
        thing(types_of="queries=(Things,)").replace("DOMAIN =", THINGS_LIST),
        "breaks the schema: UnknownPages: ThingConnection lists objects of the kind Thing, but no served domain has "
        "its `Paged` in `pages`.",
    ),
}
