"""The domains that tests use: all built-in ones, with their schema, collections and jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from portico.gateway.domains import load, schema_of
from portico.resolvers import indexes
from portico.resolvers.documents import Database

DOMAINS = load()
SCHEMA = schema_of(DOMAINS)
COLLECTIONS = DOMAINS.collections
JOBS = DOMAINS.jobs
INVARIANTS = DOMAINS.invariants
IMPORTERS = DOMAINS.importers
SOURCES = DOMAINS.events


def create_indexes(db: Database, *, rebuild: bool = False) -> AsyncIterator[tuple[str, list[str]]]:
    return indexes.create_indexes(db, COLLECTIONS, rebuild=rebuild)


def migrate(db: Database) -> AsyncIterator[tuple[str, int]]:
    return indexes.migrate(db, COLLECTIONS)
