"""Finding members: all of them by name, and those whose names begin with given words."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import strawberry

from portico.loaders.social import members as loaders
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import page_size
from portico.resolvers.social import member_search
from portico.resolvers.texts import check_length
from portico.schema.connections import Connection
from portico.schema.context import Context, Info, core
from portico.schema.fields import Source, as_type, costs
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.nodes import loader_of, projection_of
from portico.schema.suggesting import Suggested

from .users import DEFAULT_FOLLOWERS, PAGES, USER, User

DEFAULT_FOUND, MAX_FOUND = 10, 100
MAX_TEXT = 200
# What a search costs in addition: MongoDB considers up to 1,000 members.
_SEARCH = 100
# Of more members, none is suggested. The first are hidden only from those whom they have blocked.
_MOST_SUGGESTED = 100


@strawberry.type
class PeopleQuery:
    @strawberry.field(description="All members whom you can see, by name.")
    async def users(
        self,
        info: Info,
        first: First = DEFAULT_FOLLOWERS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[User] | None:
        listing, span = member_search.all_members(), Span(first, after, last, before)
        page = await PAGES.spanned(info, listing, span, default=DEFAULT_FOLLOWERS)
        return Connection(page=page)

    @strawberry.field(
        description="The members whose names have words that begin with all words of the text, in any case, with and "
        "without accents. With several words, it considers the first 1,000 members for the longest one.",
        metadata=costs(length=MAX_FOUND, each="first", extra=_SEARCH),
    )
    async def users_by_name(
        self,
        info: Info,
        text: Annotated[str, described(f"Beginnings of words, up to {MAX_TEXT} characters.")],
        first: Annotated[int, described(f"How many members at most, 1 to {MAX_FOUND}.")] = DEFAULT_FOUND,
    ) -> list[User] | None:
        with InvalidInput.collect() as check:
            wanted = check(check_length, text, "text", longest=MAX_TEXT)
            size = check(page_size, first, DEFAULT_FOUND)
        found = await _named(info, wanted, size)
        return as_type(list[User], found)


async def suggest(info: Info, text: str, first: int) -> Sequence[Suggested]:
    """Suggests members whom the caller sees; with a typo only if there are none without."""
    keys = await member_search.find_typed(info.context.reading, text, limit=_MOST_SUGGESTED)
    found = await _suggested(info.context, keys.exact) or await _suggested(info.context, keys.near)
    return found[:first]


async def _suggested(context: Context, keys: list[str]) -> list[Suggested]:
    """Returns suggestions of those of the members whom the caller sees."""
    visible = await loader_of(USER, {"_id": 1, "name": 1})(context).load_all(keys)
    names = {key: member["name"] for key, member in visible.items() if isinstance(member, Mapping)}
    return [Suggested("User", key, names[key], names[key]) for key in keys if key in names]


async def _named(info: Info, text: str, size: int) -> list[Source]:
    """Returns the members with this text in their names. Reads more of them only if some are hidden."""
    context = info.context
    keys = await _keys(context, text, size)
    shown = await _load(info, keys)
    if len(shown) == size or len(keys) < size:
        return shown
    keys = await _keys(context, text, member_search.MAX_CONSIDERED)
    visible = await loader_of(USER, {"_id": 1})(context).load_all(keys)
    return await _load(info, [key for key in keys if visible.get(key) is not None][:size])


async def _keys(context: Context, text: str, limit: int) -> list[str]:
    loader = context.loader(("members by name", limit), lambda: loaders.keys_by_name(context.reading, limit=limit))
    return await loader.load(text) or []


async def _load(info: Info, keys: list[str]) -> list[Source]:
    """Returns those of the members whom the caller sees. Raises the error of a rule that fails."""
    found = await loader_of(USER, projection_of(core(info), USER))(info.context).load_all(keys)
    shown: list[Source] = []
    for key in keys:
        member = found.get(key)
        if isinstance(member, Exception):
            raise member
        if member is not None:
            shown.append(member)
    return shown
