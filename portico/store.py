"""What a domain stores: collections, documents, lists, changes and who is notified of them, and the texts in them."""

from __future__ import annotations

from portico.resolvers import texts
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import SCHEMA_VERSION, CollectionSpec, Database, Document, Versioned, document_id
from portico.resolvers.keyed import find_by_keys
from portico.resolvers.notifying import Backlog, Notice, NotificationSource
from portico.resolvers.paging import Listing, Page, Sort
from portico.resolvers.typed import TypedDict

__all__ = [
    "SCHEMA_VERSION",
    "Backlog",
    "ChangeSource",
    "CollectionSpec",
    "Database",
    "Document",
    "Event",
    "Listing",
    "Notice",
    "NotificationSource",
    "Page",
    "Sort",
    "TypedDict",
    "Versioned",
    "document_id",
    "find_by_keys",
    "texts",
]
