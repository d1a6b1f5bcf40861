"""Creates the GraphQL schema. For domains of other packages, `portico.schema` has the names of `public`."""

import importlib
from typing import TYPE_CHECKING, Annotated, Any

import strawberry
from strawberry.schema.config import StrawberryConfig

from portico.resolvers.errors import InvalidInput
from portico.resolvers.served import Domains
from portico.schema.kinds import Node

from .assembly import AssembledSchema, additions_of, require_declared, require_rules
from .context import Info, core
from .field_checks import require_readable
from .fields import costs
from .inputs import described
from .installation import install
from .live_directive import add_live
from .nodes import MAX_NODES, find_node
from .notification_reasons import add_reasons
from .roles import add_roles
from .scalars import SCALARS
from .stored_answers import require_keepable
from .suggesting import SuggestQuery
from .viewer import ViewerQuery

if TYPE_CHECKING:
    from .public import *  # noqa: F403 - `__all__` lists the names, there and here
    from .public import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Imports the public names when one is first used: their modules import this package first."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    public = importlib.import_module("portico.schema.public")
    if name != "__all__" and name not in public.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(public, name)


@strawberry.type(description="The queries.")
class Query(ViewerQuery, SuggestQuery):
    @strawberry.field(description="The object with this id, of any type; null if there is none.")
    async def node(self, info: Info, id: Annotated[strawberry.ID, described("The `id` of the object.")]) -> Node | None:
        return await find_node(core(info), id)  # type: ignore[return-value]

    @strawberry.field(
        description="The objects with these ids, in the order of `ids`. An item is null if there is no such object.",
        metadata=costs(length=MAX_NODES, each="ids", weights={"ids": 10}),
    )
    async def nodes(
        self, info: Info, ids: Annotated[list[strawberry.ID], described("At most 100 ids.")]
    ) -> list[Node | None] | None:
        if len(ids) > MAX_NODES:
            text = f"`ids` can have at most {MAX_NODES} items; got {len(ids)}."
            raise InvalidInput(text, "ids", code=InvalidInput.TOO_MANY, most=MAX_NODES)
        # graphql-core awaits the items concurrently, so that their loaders batch them.
        return [find_node(core(info), global_id) for global_id in ids]  # type: ignore[misc]


@strawberry.type(
    description="The mutations. If a field is null, a fault occurred, which `errors` describes. "
    "The other fields of the same request keep their effect."
)
class Mutation:
    pass


@strawberry.type(description="The subscriptions. An operation has one field, and one response for each event.")
class Subscription:
    pass


def create_schema(domains: Domains) -> strawberry.Schema:
    """Creates the schema of these domains, and installs the resolvers of its document-backed fields.

    Raises:   InvalidDomains (for example, a kind has no visibility rule), UnknownKind (a field names a kind that
              is not served), UnknownPages (no domain declares the pages of a connection), NotKeepable (a mutation has
              an answer that cannot be stored for its key).
    """
    require_rules(domains)
    additions = additions_of(domains)
    schema = AssembledSchema(
        additions=additions,
        query=Query,
        mutation=Mutation if "Mutation" in additions else None,
        subscription=Subscription if "Subscription" in additions else None,
        types=[found for domain in domains.all for found in domain.types],
        config=StrawberryConfig(scalar_map=SCALARS),
    )
    require_declared(domains, schema._schema)  # noqa: SLF001 - strawberry has no public name for it
    require_readable(domains, schema._schema, additions)  # noqa: SLF001 - as above
    install(schema, domains.kinds, domains.pages)
    add_live(schema._schema)  # noqa: SLF001 - strawberry has no public name for it
    add_roles(schema._schema, domains.roles)  # noqa: SLF001 - strawberry has no public name for it
    add_reasons(schema._schema, domains.notifications.reasons)  # noqa: SLF001 - strawberry has no public name for it
    require_keepable(schema)
    return schema
