"""What a domain stores: collections, documents, lists, changes and who is notified of them, and the texts in them."""

from __future__ import annotations

from portico.resolvers import texts
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.notifying import NotificationSource
from portico.resolvers.paging import Listing, Page, Sort
from portico.resolvers.typed import TypedDict

__all__ = [
    "ChangeSource",
    "CollectionSpec",
    "Database",
    "Document",
    "Event",
    "Listing",
    "NotificationSource",
    "Page",
    "Sort",
    "TypedDict",
    "Versioned",
    "texts",
]
