"""The names of `portico` itself: what every domain needs."""

from __future__ import annotations

from portico.resolvers.configuration import HttpUrl, Secret, setting
from portico.resolvers.declarations import Domain, Resources, Service
from portico.resolvers.errors import Conflict, DomainError, InvalidInput, NotFound
from portico.schema.context import Caller, Context, Info
from portico.schema.roles import Role

__all__ = [
    "Caller",
    "Conflict",
    "Context",
    "Domain",
    "DomainError",
    "HttpUrl",
    "Info",
    "InvalidInput",
    "NotFound",
    "Resources",
    "Role",
    "Secret",
    "Service",
    "setting",
]
