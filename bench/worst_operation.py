"""An operation of `bench.worst`: a part that is repeated under as many aliases as the limits allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# The most ids that `nodes` takes.
_NODES = 100


@dataclass(frozen=True)
class Operation:
    """A part of an operation. The whole has as many parts as the limits allow.

    In a part, `%n` stands for the number of its alias, `%p` for the size of a page, `%i` for an id of the part's own,
    and `%l` for a list of a hundred ids of its own.

    `caller` is the subject and the roles of the caller; None is an anonymous one. `before` and `after` surround all
    parts together. `refused` is the code of the errors, if that is all that the operation gets. `most` bounds the
    parts, where more would be refused: the lists of an operation cover at most `PORTICO_MAX_COUNTED` categories.
    """

    part: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    declared: str = ""
    before: str = ""
    after: str = ""
    caller: tuple[str, ...] | None = None
    ids: Sequence[str] = ()
    kind: str = "query"
    refused: str | None = None
    most: int = 1_000

    def text(self, times: int) -> str:
        lists = [f"$l{number}: [ID!]!" for number in range(times)] if self._has_lists else []
        declared = ", ".join([*filter(None, [self.declared]), *lists])
        parts = " ".join(map(self._numbered, range(times)))
        return f"{self.kind} {f'({declared})' if declared else ''} {{ {self.before} {parts} {self.after} }}"

    def given(self, times: int) -> dict[str, Any]:
        """Returns the variables."""
        lists = {f"l{number}": self._own_ids(number) for number in range(times)} if self._has_lists else {}
        return {**self.variables, **lists}

    @property
    def called_by(self) -> str:
        """Who can send it: everybody, somebody with a token, or somebody with a role."""
        if self.caller is None:
            return "anyone"
        return " ".join(self.caller[1:]) or "signed in"

    @property
    def _has_lists(self) -> bool:
        return "%l" in self.part

    def _own_ids(self, number: int) -> list[str]:
        own = (self.ids[(number * _NODES + nth) % len(self.ids)] for nth in range(_NODES))
        return list(dict.fromkeys(own))

    def _numbered(self, number: int) -> str:
        part = self.part.replace("%n", str(number)).replace("%p", str(1 + number % 100)).replace("%l", f"$l{number}")
        return part.replace("%i", f'"{self.ids[number % len(self.ids)]}"') if self.ids else part
