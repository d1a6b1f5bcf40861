"""Keeps parsed documents for the gateways that start later in the same process.

Each test starts a gateway, and most tests of a file send the same few documents.
"""

from __future__ import annotations

from graphql import DocumentNode, GraphQLSchema

from portico.gateway.operations.documents import Operations

# Each document makes a full garbage collection slower, so only those of the latest tests are kept.
_MAX_KEPT = 128
_LONGEST_KEPT = 5_000

# By all that the outcome depends on: the schema, two settings and the text.
_kept: dict[tuple[GraphQLSchema, bool, int, str], DocumentNode] = {}


def keep_parsed_documents() -> None:
    """Makes the gateways of this process parse and validate each valid document once for all of them."""
    parse = Operations._parse

    def parsed(operations: Operations, text: str) -> DocumentNode:
        if len(text) > _LONGEST_KEPT:
            return parse(operations, text)
        settings = operations._settings
        key = operations._schema, settings.allows_introspection, settings.max_tokens, text
        if key not in _kept:
            document = parse(operations, text)
            if len(_kept) >= _MAX_KEPT:
                _kept.pop(next(iter(_kept)))
            _kept[key] = document
        return _kept[key]

    Operations._parse = parsed  # type: ignore[assignment,method-assign]
