"""Records what an operation reads of its caller. Two callers who agree in that get the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .context import Caller, Context
from .roles import Role

# Something that can be read of a caller: an attribute, by its name; a role, which the caller has or has not; a claim.
Fact = str | Role | Caller.Claim[Any]
_ATTRIBUTES = ("subject", "roles", "name", "claims")


def fact_of(caller: Caller, fact: Fact) -> Any:
    """Returns the value of an attribute or a claim, or whether the caller has the role."""
    if isinstance(fact, Caller.Claim):
        return caller.claim_text(fact)
    return caller.has(fact) if isinstance(fact, Role) else getattr(caller, fact)


def agrees(caller: Caller, facts: Mapping[Fact, Any]) -> bool:
    """Returns whether all these facts are the same for the caller."""
    return all(fact_of(caller, fact) == value for fact, value in facts.items())


class Facts(dict[Fact, Any]):
    """What is read of a caller, with the values. `on_read` is called after each fact that is read the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.on_read: Callable[[Fact], None] | None = None

    def __setitem__(self, fact: Fact, value: Any) -> None:
        if fact not in self:
            super().__setitem__(fact, value)
            if self.on_read is not None:
                self.on_read(fact)


class WatchedCaller(Caller):
    """A caller that records in `facts` what is read of it."""

    def __init__(
        self,
        subject: str,
        roles: frozenset[Role],
        name: str = "",
        claims: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        super().__init__(subject, roles, name, claims)
        # The attributes of the base class are frozen.
        object.__setattr__(self, "facts", Facts())

    @classmethod
    def of(cls, caller: Caller) -> WatchedCaller:
        return cls(caller.subject, caller.roles, caller.name, caller.claims)

    facts: Facts

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in _ATTRIBUTES:
            super().__getattribute__("facts")[name] = value
        elif name == "__dict__":
            # It has all attributes.
            for one in _ATTRIBUTES:
                getattr(self, one)
        return value

    def has(self, role: Role) -> bool:
        # Only this role is read, not all of them.
        has_it = Caller("", super().__getattribute__("roles")).has(role)
        self.facts[role] = has_it
        return has_it

    def claim_text(self, claim: Caller.Claim[Any]) -> str:
        # Only this claim is read.
        text = Caller("", frozenset(), claims=super().__getattribute__("claims")).claim_text(claim)
        self.facts[claim] = text
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caller) and all(getattr(self, one) == getattr(other, one) for one in _ATTRIBUTES)

    __hash__ = Caller.__hash__

    def __reduce__(self) -> Any:
        return Caller, (self.subject, self.roles, self.name, self.claims)


class Asked:
    """Whether anything has asked who the caller is, or whether there is one."""

    def __init__(self) -> None:
        self.is_asked = False


class WatchedContext(Context):
    """A context that notes if its caller is asked for. The answer of a run that does not is that of every caller."""

    @property
    def caller(self) -> Caller | None:
        values = self.__dict__
        values["asked"].is_asked = True
        caller: Caller | None = values["caller"]
        return caller


def watching(context: Context, **changes: Any) -> tuple[Context, Asked]:
    """Returns a copy of a context with these values, and what notes if its caller is asked for."""
    asked = Asked()
    values = {**context.__dict__, **changes, "asked": asked}
    copy = object.__new__(WatchedContext)
    object.__setattr__(copy, "__dict__", values)
    return copy, asked
