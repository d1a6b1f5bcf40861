"""What the calls of tests select on the errors that many mutations share."""

from __future__ import annotations

NOT_FOUND = "... on NotFound { missingId }"
INVALID = f"{NOT_FOUND} ... on InvalidInput {{ path }}"
DELETED = "... on DeletedPayload { deletedId }"
