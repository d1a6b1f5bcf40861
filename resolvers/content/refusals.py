"""Why a write of content is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from portico.resolvers.errors import DomainError


class SectionNotEmpty(DomainError):
    def __init__(self) -> None:
        super().__init__("The section still has children.")


class EditConflict(DomainError):
    """The nonce is outdated. `current` is the whole current node.

    For texts: `base_text` is the text at the caller's nonce, if it is still stored; `diff` leads from the current text
    to the caller's; `merged_text` combines both edits if they do not overlap. A photo has none of them.

    A retry of the call compares with the node as it is then.
    """

    facts = ("current", "base_text", "diff", "merged_text")
    is_retryable = True

    def __init__(
        self,
        current: Mapping[str, Any],
        *,
        base_text: str | None = None,
        diff: str = "",
        merged_text: str | None = None,
    ) -> None:
        super().__init__("Somebody else has saved the node since you read it.")
        self.current = current
        self.base_text = base_text
        self.diff = diff
        self.merged_text = merged_text


class PhotoLocked(DomainError):
    """Another caller is uploading this photo. `since` is when the upload began, UTC."""

    facts = ("since",)
    since: datetime
    is_retryable = True

    def __init__(self, since: datetime) -> None:
        super().__init__("Somebody else is uploading this photo. Try again later.")
        self.since = since
