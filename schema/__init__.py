"""What clients see."""

from __future__ import annotations

from typing import Annotated

import strawberry
from graphql import GraphQLError
from strawberry.schema.config import StrawberryConfig

from portico.resolvers.domains import Domains

from .assembly import AssembledSchema, additions_of, require_rules
from .context import Info, core
from .errors import HANDLERS
from .fields import costs
from .inputs import described
from .installation import install
from .kept import require_keepable
from .nodes import MAX_NODES, Node, find_node
from .scalars import SCALARS
from .viewer import ViewerQuery


@strawberry.type(description="Reading.")
class Query(ViewerQuery):
    @strawberry.field(description="The object with this id, of whatever type.")
    async def node(
        self, info: Info, id: Annotated[strawberry.ID, described("What the object has for `id`.")]
    ) -> Node | None:
        return await find_node(core(info), id)  # type: ignore[return-value]

    @strawberry.field(
        description="At most 100 ids; the answers stand in the order of the ids, null where there is none.",
        metadata=costs(length=MAX_NODES, each="ids"),
    )
    async def nodes(
        self, info: Info, ids: Annotated[list[strawberry.ID], described("At most 100.")]
    ) -> list[Node | None]:
        if len(ids) > MAX_NODES:
            raise GraphQLError(
                f"There are {len(ids)} ids; {MAX_NODES} are allowed.", extensions={"code": "BAD_USER_INPUT"}
            )
        # graphql-core awaits the items side by side, so that their loaders batch them.
        return [find_node(core(info), global_id) for global_id in ids]  # type: ignore[misc]


@strawberry.type(
    description="Writing. A field is null only after a fault, which is in `errors`; "
    "other fields of the same request stand."
)
class Mutation:
    pass


@strawberry.type(description="What happens, as it happens. An operation has one field, and an answer for each event.")
class Subscription:
    pass


def create_schema(domains: Domains) -> strawberry.Schema:
    """Returns the schema of these domains, its document-backed fields ready to read documents.

    Raises:   InvalidDomains (e.g. a kind has no rule of visibility), NotKeepable (a mutation has an answer that cannot
              be kept for its idempotency key).
    """
    require_rules(domains)
    additions = additions_of(domains)
    schema = AssembledSchema(
        additions=additions,
        query=Query,
        mutation=Mutation if "Mutation" in additions else None,
        subscription=Subscription if "Subscription" in additions else None,
        types=[found for domain in domains.all for found in domain.types],
        exception_handlers=HANDLERS,
        config=StrawberryConfig(scalar_map=SCALARS),
    )
    install(schema)
    require_keepable(schema)
    return schema
