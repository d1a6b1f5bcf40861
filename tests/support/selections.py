"""What the calls of tests select."""

from __future__ import annotations

NOT_FOUND = "... on NotFound { missingId }"
INVALID = f"{NOT_FOUND} ... on InvalidInput {{ path }}"
DELETED = "... on DeletedPayload { deletedId }"


def shortest(mutation: str) -> str:
    """Returns the text of an operation that calls the mutation with `$input`, and selects nothing else."""
    kind = mutation[0].upper() + mutation[1:]
    return f"mutation ($input: {kind}Input!) {{ {mutation}(input: $input) {{ __typename }} }}"
