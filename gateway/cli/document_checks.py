"""`portico documents`: checks trusted documents, without a database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from portico.gateway.domains import load, schema_of
from portico.gateway.operations.documents import Operations
from portico.gateway.operations.manifests import DocumentsError, read_documents
from portico.gateway.operations.trusted import checked
from portico.gateway.pages import storefront
from portico.gateway.settings import PREFIX, Settings

from .errors import Failure


def name_files(files: Sequence[Path] | None, more: Sequence[Path] | None) -> None:
    """Puts the files of an option into the environment, where each worker finds them. `more` follow the first one."""
    if more and not files:
        raise Failure(f"unexpected argument {more[0]}. Only an option takes files of trusted documents.")
    names = [str(file.absolute()) for file in [*(files or ()), *(more or ())]]
    if any("," in name for name in names):
        raise Failure("the name of a file of trusted documents must not contain a comma.")
    if names:
        os.environ[f"{PREFIX}DOCUMENT_FILES"] = ",".join(names)


def trust_storefront(settings: Settings) -> bool:
    """Adds the storefront's documents to those of the settings, in the environment, if they fit the schema.

    They do not if the storefront is older than the schema, or if the gateway does not serve all domains.
    """
    file = storefront.manifest()
    if not storefront.is_built() or "," in str(file):
        return False
    try:
        check(replace(settings, document_files=str(file)))
    except DocumentsError:
        return False
    os.environ[f"{PREFIX}DOCUMENT_FILES"] = ",".join(filter(None, [settings.document_files, str(file)]))
    return True


def check(settings: Settings) -> int:
    """Returns the number of trusted documents in the files of the settings.

    Raises DocumentsError if a file cannot be read, or if a document does not fit the schema.
    """
    documents = read_documents(settings.document_paths)
    if documents:
        schema = schema_of(load(settings.domain_names))._schema  # noqa: SLF001 - strawberry has no public name for it
        checked(documents, Operations(schema, settings))
    return len(documents)
