"""The roles of callers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.gateway.domains import BUILT_IN, load
from portico.schema.roles import OWN_ROLES, Role
from tests.support.harness import MUTATIONS, GatewayClient

# Those that every gateway has, and those of the built-in domains.
ROLES: tuple[Role, ...] = (*OWN_ROLES, *load(BUILT_IN).roles)


async def assert_only_for(gateway: GatewayClient, role: str, mutation: str, given: Mapping[str, Any]) -> None:
    """Asserts that the mutation refuses callers without a token, and those with every other role but ADMIN."""
    anonymous = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=None)
    forbidden = await gateway.ask(MUTATIONS[mutation], {"input": given}, token=gateway.token("clerk", all_but(role)))
    assert (anonymous.body["data"], anonymous.codes) == ({mutation: None}, ["UNAUTHENTICATED"])
    assert (forbidden.body["data"], forbidden.codes) == ({mutation: None}, ["FORBIDDEN"])


def all_but(*names: str) -> list[Role]:
    """Returns the roles that grant nothing that these roles grant."""
    return [role for role in ROLES if role.name not in {"ADMIN", *names}]
