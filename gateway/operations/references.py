"""Finds the text of an operation that a client refers to, and decides which texts may run.

A client refers to a trusted document by its id, or to a text by its hash: Apollo's `persistedQuery`. The hash can be
that of a trusted document, or of a text that some client has persisted before (automatic persisted queries).

Source: the GraphQL-over-HTTP specification, draft of 2025, appendix A, "Persisted Documents"; Apollo's protocol of
        automatic persisted queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from graphql import GraphQLError

from portico.gateway.bounded_log import BoundedLog
from portico.gateway.outages import log_fault
from portico.gateway.settings import Settings
from portico.resolvers.documents import Database
from portico.resolvers.lru import Lru
from portico.resolvers.persisted_queries import persist_query, persisted_query

from .documents import LONGEST_KEPT, InvalidOperation, Operations
from .manifests import hash_of
from .trusted import Trusted

NOT_FOUND, NOT_TRUSTED = "DOCUMENT_NOT_FOUND", "DOCUMENT_NOT_TRUSTED"
HASH_NOT_FOUND, HASH_NOT_SUPPORTED = "PERSISTED_QUERY_NOT_FOUND", "PERSISTED_QUERY_NOT_SUPPORTED"
HASH_MISMATCH = "PERSISTED_QUERY_HASH_MISMATCH"
# Apollo's link compares these messages, and newer ones the codes.
_MESSAGES = {HASH_NOT_FOUND: "PersistedQueryNotFound", HASH_NOT_SUPPORTED: "PersistedQueryNotSupported"}
_KEPT_CHARACTERS = 1_000_000
# The characters of a text that the log shows.
_SHOWN = 300


class Reference(NamedTuple):
    """What a request has beside its text, or in place of it: the id of a document, or the hash of a text."""

    key: str
    is_hash: bool = False


class References:
    """The trusted documents of a gateway, and the texts that clients have persisted.

    `untrusted` counts the texts that are not trusted, if the settings trust documents only: `ran` and `refused`.
    """

    def __init__(self, settings: Settings, operations: Operations, trusted: Trusted) -> None:
        self._mode = settings.documents
        self._persists = settings.persisted_queries and self._mode != "only"
        self._may_write = not settings.read_only
        self._most = settings.max_persisted_queries
        self._operations = operations
        self._trusted = trusted
        self._texts: Lru[str, str] = Lru(
            settings.cached_operations, most_size=_KEPT_CHARACTERS, size_of=lambda _key, text: len(text)
        )
        self._log = BoundedLog()
        self.untrusted: Counter[str] = Counter()

    @property
    def accepts_all(self) -> bool:
        """Whether every text can run, and none is logged."""
        return self._mode == "any"

    def is_fixed(self, text: str, reference: Reference | None) -> bool:
        """Returns whether a request that got this text gets it each time, without a read or an entry in the log."""
        if reference is None:
            return self.accepts_all or text in self._operations.trusted
        return self._trusted.text(reference.key) is not None

    def needs_database(self, reference: Reference | None) -> bool:
        """Returns whether `text_of` must read or write the database."""
        if reference is None or not reference.is_hash or not self._persists:
            return False
        return self._trusted.text(reference.key) is None and self._texts.get(reference.key) is None

    async def text_of(
        self,
        text: str | None,
        reference: Reference | None,
        *,
        db: Database,
        now: datetime,
        about: Mapping[str, Any],
    ) -> str:
        """Returns the text to run. Raises InvalidOperation, with a code that says what the client can do.

        Args:     text: what the client sent; None if it sent a reference only.
                  about: what the log says of the client, if the text may not run.
        """
        if reference is None:
            assert text is not None
            return self._allowed(text, about)
        found = self._trusted.text(reference.key)
        if found is not None:
            if text is not None and text != found:
                raise _refused(HASH_MISMATCH, "The trusted document with this id has another text than `query`.")
            return found
        if text is not None and self._mode == "only":
            return self._allowed(text, about)
        if not reference.is_hash or self._mode == "only":
            raise _refused(NOT_FOUND, "There is no trusted document with this id.")
        return await self._persisted(text, reference.key, db, now, about)

    def _allowed(self, text: str, about: Mapping[str, Any]) -> str:
        if self._mode == "any" or text in self._operations.trusted:
            return text
        outcome = "refused" if self._mode == "only" else "ran"
        self.untrusted[outcome] += 1
        key = hash_of(text)
        self._log.add("untrusted document", key, outcome=outcome, sha256=key, text=text[:_SHOWN], **about)
        if self._mode == "only":
            raise _refused(NOT_TRUSTED, "This gateway runs trusted documents only. Send the `documentId` of one.")
        return text

    async def _persisted(
        self, text: str | None, key: str, db: Database, now: datetime, about: Mapping[str, Any]
    ) -> str:
        if not self._persists:
            if text is None:
                raise _refused(HASH_NOT_SUPPORTED)
            return self._allowed(text, about)
        if text is None:
            return self._allowed(await self._stored(key, db, now), about)
        if hash_of(text) != key:
            raise _refused(HASH_MISMATCH, "`sha256Hash` is not the SHA-256 hash of `query`.")
        if self._texts.get(key) is None and len(text) <= LONGEST_KEPT:
            # Only a text that can run is stored.
            self._operations.get(text)
            await self._store(key, text, db, now)
        return self._allowed(text, about)

    async def _stored(self, key: str, db: Database, now: datetime) -> str:
        known = self._texts.get(key)
        if known is None:
            try:
                known = await persisted_query(db, key, now=now, may_write=self._may_write)
            except Exception as error:  # noqa: BLE001 - the answer has the code of any fault, and the log has the rest
                raise InvalidOperation([GraphQLError("", original_error=error)]) from None
            if known is None:
                raise _refused(HASH_NOT_FOUND)
            self._texts.put(key, known)
        return known

    async def _store(self, key: str, text: str, db: Database, now: datetime) -> None:
        self._texts.put(key, text)
        if not self._may_write:
            return
        try:
            await persist_query(db, key, text, now=now, most=self._most)
        except Exception as error:  # noqa: BLE001 - the log has any fault, and the operation runs without it
            # The operation runs without it, and the client persists it again when another worker does not know it.
            log_fault("cannot persist a query", error)


def _refused(code: str, message: str | None = None) -> InvalidOperation:
    return InvalidOperation([GraphQLError(message or _MESSAGES[code], extensions={"code": code})])
