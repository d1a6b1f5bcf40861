"""Reads the files of trusted documents, as the build tools of clients write them.

Two forms: Apollo's `apollo-persisted-query-manifest`, and an object with the text of each document by its id, which
Relay's compiler and the client preset of GraphQL Code Generator write.

Source: the manifest of @apollo/generate-persisted-query-manifest; `persistConfig` of the Relay compiler;
        `persistedDocuments` of the client preset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.settings import SettingsError

_APOLLO = "apollo-persisted-query-manifest"
_APOLLO_VERSION = 1
SHA256 = "sha256:"


class DocumentsError(SettingsError):
    """The trusted documents cannot be served. The text names each file or document, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TrustedDocument:
    """One document of a file. `client` is the client that sends it: the one that the file names, or else the file."""

    id: str
    text: str
    client: str
    name: str | None = None

    @property
    def label(self) -> str:
        """The client and the document, for messages."""
        return f"{self.client}: {self.id if self.name is None else f'{self.name} ({self.id})'}"


def read_documents(files: Iterable[Path]) -> list[TrustedDocument]:
    """Returns the documents of all files, each id once. Raises DocumentsError, also if an id has two texts."""
    found: dict[str, TrustedDocument] = {}
    for file in files:
        for document in _documents_in(file):
            other = found.setdefault(document.id, document)
            if other.text != document.text:
                raise DocumentsError(f"Two trusted documents have the same id: {other.label}, and {document.label}.")
    return list(found.values())


def texts_by_id(documents: Iterable[TrustedDocument]) -> Mapping[str, str]:
    """Returns the text of each document by each of its ids: its own, `sha256:` with its hash, and the hash alone."""
    documents = list(documents)
    found = {document.id: document.text for document in documents}
    for document in documents:
        digest = hash_of(document.text)
        for name in (SHA256 + digest, digest):
            found.setdefault(name, document.text)
    return found


def hash_of(text: str) -> str:
    """Returns the SHA-256 hash of a text, in lower-case hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _documents_in(file: Path) -> Iterator[TrustedDocument]:
    try:
        given = orjson.loads(file.read_bytes())
    except OSError as error:
        raise DocumentsError(f"{file}: {error.strerror}.") from None
    except orjson.JSONDecodeError as error:
        raise DocumentsError(f"{file} is not JSON in UTF-8: {error}.") from None
    if not isinstance(given, dict):
        raise DocumentsError(f"{file} must be a JSON object: {_FORMS}.")
    documents = list(_apollo(file, given) if given.get("format") == _APOLLO else _by_id(file, given))
    if not documents:
        raise DocumentsError(f"{file} has no documents.")
    for document in documents:
        if document.id.startswith(SHA256) and document.id != SHA256 + hash_of(document.text):
            raise DocumentsError(f"{document.label}: the id is not the SHA-256 hash of the text.")
        yield document


_FORMS = f"a manifest with the format {_APOLLO}, or the texts of documents by their ids"


def _apollo(file: Path, given: Mapping[str, Any]) -> Iterator[TrustedDocument]:
    if given.get("version") != _APOLLO_VERSION:
        raise DocumentsError(f"{file} must have the version {_APOLLO_VERSION}; got {given.get('version')!r}.")
    operations = given.get("operations")
    if not isinstance(operations, list):
        raise DocumentsError(f"{file} must have a list of `operations`.")
    for number, operation in enumerate(operations):
        fields: Sequence[Any] = [None] * 4
        if isinstance(operation, dict):
            fields = [operation.get(name) for name in ("id", "body", "name", "clientName")]
        key, text, name, client = fields
        if not _is_text(key) or not _is_text(text):
            raise DocumentsError(f"{file}: `operations[{number}]` must have an `id` and a `body`.")
        yield TrustedDocument(key, text, client if _is_text(client) else file.name, name if _is_text(name) else None)


def _by_id(file: Path, given: Mapping[str, Any]) -> Iterator[TrustedDocument]:
    for key, text in given.items():
        if not _is_text(key) or not _is_text(text):
            raise DocumentsError(f"{file}: the value of {key!r} must be the text of a document. A file is {_FORMS}.")
        yield TrustedDocument(key, text, file.name)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
