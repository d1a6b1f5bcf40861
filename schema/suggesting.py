"""`suggest`: objects of all kinds whose names match what a person types. Domains declare how theirs are found."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NamedTuple

import strawberry

from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import page_size
from portico.resolvers.texts import check_length
from portico.resolvers.typed_text import MAX_TEXT, Part, parts_of, typed_words
from portico.schema.kinds import Kind, Node

from .context import Info, core
from .fields import computed, costs
from .inputs import described
from .nodes import find_node
from .parts import part_id

DEFAULT_SUGGESTED, MAX_SUGGESTED = 5, 20
# What the searches of all domains cost. Each examines up to a few thousand index keys and documents.
_SEARCH = 5_000


class Suggested(NamedTuple):
    """An object that a domain suggests. `title` is its name; `match` is what the typed text matches: the title, or e.g.
    the name of an artist.
    """

    kind: str
    key: Any
    title: str
    match: str


# Returns at most so many objects that the caller sees, the best first, with the values of `Suggested`.
Suggester = Callable[[Info, str, int], Awaitable[Sequence[tuple[str, Any, str, str]]]]


@strawberry.type(description="A part of a text.")
class TextPart:
    part: strawberry.Private[Part]
    text: str = computed(lambda one: one.part.text, description="The text of the part, with its spaces.")
    is_match: bool = computed(lambda one: one.part.is_match, description="Whether this is what was typed.")


@strawberry.type(description="An object that matches a typed text.")
class Suggestion:
    suggested: strawberry.Private[Suggested]
    typed: strawberry.Private[list[str]]
    id: strawberry.ID = part_id("Suggestion", lambda one: f"{one.suggested.kind}:{one.suggested.key}")
    kind: str = computed(
        lambda one: one.suggested.kind, description="The kind of the object: `Product`, `Category`, `User` and so on."
    )
    title: str = computed(lambda one: one.suggested.title, description="The name or the title of the object.")
    match: list[TextPart] = computed(
        lambda one: [TextPart(part=part) for part in parts_of(one.suggested.match, one.typed)],
        length=10,
        description="What the typed text matches, with the matching parts: the title, or for example the artist.",
    )

    @strawberry.field(description="The object; null if it was deleted in the meantime.")
    async def node(self, info: Info) -> Node | None:
        key = Kind.encode_id(self.suggested.kind, self.suggested.key)
        return await find_node(core(info), key)  # type: ignore[return-value]


@strawberry.type
class SuggestQuery:
    @strawberry.field(
        description="Objects whose names match a text while a person types it, in any case and without accents, by the "
        "beginnings of words. If a word of 4 to 24 letters finds nothing, it finds words that differ by one typo. "
        "Those of a kind are together, the best first.",
        metadata=costs(length=4 * MAX_SUGGESTED, extra=_SEARCH),
    )
    async def suggest(
        self,
        info: Info,
        text: Annotated[str, described(f"What was typed, up to {MAX_TEXT} characters.")],
        first: Annotated[int, described(f"How many of a kind at most: 1 to {MAX_SUGGESTED}.")] = DEFAULT_SUGGESTED,
    ) -> list[Suggestion] | None:
        with InvalidInput.collect() as check:
            check(check_length, text, "text", longest=MAX_TEXT)
            size = check(page_size, first, DEFAULT_SUGGESTED, most=MAX_SUGGESTED)
        typed = typed_words(text)
        if not typed:
            return []
        suggesters: Sequence[Suggester] = info.context.served.suggesters
        found = await asyncio.gather(*(suggester(info, text, size) for suggester in suggesters))
        return [Suggestion(suggested=Suggested(*one), typed=typed) for some in found for one in some]
