"""Members, their profiles, their circles and their followers. The mutations are in `membership`."""

from collections.abc import Sequence
from typing import Annotated

import strawberry

from portico.loaders.social import members as loaders
from portico.resolvers import errors
from portico.resolvers.social import circles, follower_counts, member_edits, member_lists, members, relations
from portico.resolvers.social.member_lists import MemberListing
from portico.resolvers.social.members import MemberDocument
from portico.schema.connections import Connection, Paged
from portico.schema.context import Caller, Context, Info, core
from portico.schema.fields import Source, as_type, costs, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span, described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.nodes import loader_of, projection_of
from portico.schema.parts import part_id
from portico.schema.reading import load_one

DEFAULT_FOLLOWERS = 20
DEFAULT_CIRCLE_MEMBERS = 50
# `blocked` has no pages; `viewer.blockedUsers` has.
MAX_BLOCKED = 100


async def _unless_blocked(context: Context, documents: Sequence[Source]) -> Sequence[Source | None]:
    """Returns the members whom the caller sees: those who have not blocked the caller. It reads after the members."""
    subject = context.subject
    if subject is None:
        return documents
    others = [document["_id"] for document in documents if document["_id"] != subject]
    hidden = await relations.find_blocking(context.db, subject, others) if others else set()
    return [None if document["_id"] in hidden else document for document in documents]


USER = Kind(
    name=members.USER,
    path="_id",
    parse=str,
    read=loaders.by_id,
    collection=members.MEMBERS.name,
    types=("User",),
    type_name=lambda _document: "User",
    shown_to=_unless_blocked,
)
PAGES = Paged(USER.name, loaders.pages)
# What a follower costs at least: MongoDB reads the relation and the member.
_MEMBER = 12
# What a count of followers costs in addition: MongoDB reads up to 1,000 keys of an index.
_COUNT = 50
# A member of a circle costs less, so that one operation can show the first members of all circles.
_MEMBER_OF_CIRCLE = 4


async def _with_name_alone(context: Context, documents: Sequence[Source]) -> Sequence[Source]:
    """Returns members whom the caller has blocked. Of those who have blocked the caller, only a name is shown.

    The caller must find them to unblock them. It reads after the members.
    """
    subject = context.subject
    if subject is None or not documents:
        return documents
    names = await relations.find_names_of_blocking(context.db, subject, [document["_id"] for document in documents])
    return [
        members.hidden(key, names[key]) if (key := document["_id"]) in names else document for document in documents
    ]


_BLOCKED = Paged(USER.name, loaders.pages, shown_to=_with_name_alone)


@strawberry.type(description="What a member tells about themselves.")
class Profile:
    about: str | None = stored(text=member_edits.MAX_ABOUT, description="A text about the member.")
    location: str | None = stored(description="Where the member lives.")
    website: str | None = stored(description="An http or https address.")
    birth_year: int | None = stored(description="The year of birth.")
    interests: list[str] = stored(
        default=(), length=member_edits.MAX_INTERESTS, description="Up to 50 interests, in the member's order."
    )


@strawberry.type(
    description="A member. The social graph is directed: a member follows everybody in their circles. A member who has "
    "blocked the viewer does not exist for the viewer."
)
class User(Node):
    id: strawberry.ID = node_id(USER.name, "_id")
    name: str = stored(description="The member's name.")
    profile: Profile = stored(default={}, description="What the member tells about themselves.")

    @reads("_id", row=_MEMBER, description="The members who have put this one into a circle, by id.")
    @staticmethod
    async def followers(
        root: strawberry.Parent[Source],
        info: Info,
        first: First = DEFAULT_FOLLOWERS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> "Connection[User]":
        listing = member_lists.followers_of(root["_id"])
        if members.IS_HIDDEN in root:
            return Connection(page=member_lists.no_page(info.context.db, listing))
        return await _user_page(info, listing, DEFAULT_FOLLOWERS, Span(first, after, last, before))

    @reads(
        "_id",
        extra=_COUNT,
        description=f"How many `followers` the viewer can see, up to {follower_counts.MAX_COUNTED:,}, which stands for "
        f"as many or more. Members who have blocked the viewer do not count. Null if more than "
        f"{follower_counts.MAX_BLOCKS:,} members have blocked the viewer.",
    )
    @staticmethod
    async def follower_count(root: strawberry.Parent[Source], info: Info) -> int | None:
        if members.IS_HIDDEN in root:
            return 0
        context, viewer = info.context, info.context.subject
        loader = context.loader("counts of followers", lambda: loaders.counts_of_followers(context.db, viewer=viewer))
        return await loader.load(root["_id"])

    @reads("_id", description="Whether the member is in a circle of the viewer; false without a token.")
    @staticmethod
    async def viewer_follows(root: strawberry.Parent[Source], info: Info) -> bool:
        return (await _decided(info.context, root["_id"])).follows

    @reads("_id", description="Whether the viewer has blocked the member; false without a token.")
    @staticmethod
    async def viewer_has_blocked(root: strawberry.Parent[Source], info: Info) -> bool:
        return (await _decided(info.context, root["_id"])).has_blocked

    @reads(
        "_id",
        "circles",
        length=circles.MAX_CIRCLES,
        description="The viewer's own circles that have a member; null for other members.",
    )
    @staticmethod
    async def circles(root: strawberry.Parent[MemberDocument], info: Info) -> "list[Circle] | None":
        if root["_id"] != info.context.subject:
            return None
        names = await circles.existing(info.context.db, root["_id"], root.get("circles", []))
        return [as_type(Circle, {"of": root["_id"], "name": name}) for name in names]

    @reads(
        "_id",
        length=MAX_BLOCKED,
        description="The first 100 members whom the viewer has blocked, by id; null for other members. "
        "`viewer.blockedUsers` has all. Of those who have blocked the viewer, too, you see only the name that they had "
        "when the viewer blocked them, or their subject.",
    )
    @staticmethod
    async def blocked(root: strawberry.Parent[MemberDocument], info: Info) -> "list[User] | None":
        if root["_id"] != info.context.subject:
            return None
        context, raw = info.context, core(info)
        blocked = await relations.find_blocked(context.db, root["_id"], MAX_BLOCKED)
        found = await loader_of(USER, projection_of(raw, USER), discloses=True)(context).load_all(blocked)
        there = [document for subject in blocked if (document := found[subject]) is not None]
        return as_type(list[User], await _with_name_alone(context, there))


@strawberry.type(
    description="A circle of the viewer: members whom the viewer follows, under a name. Only the viewer sees it."
)
class Circle:
    id: strawberry.ID = part_id("Circle", lambda circle: f"{circle['of']}:{circle['name']}", "of", "name")
    name: str = stored(description="1 to 64 characters of any text.")

    @reads("of", "name", row=_MEMBER_OF_CIRCLE, description="The members of the circle, by id.")
    @staticmethod
    async def members(
        root: strawberry.Parent[Source],
        info: Info,
        first: First = DEFAULT_CIRCLE_MEMBERS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[User]:
        listing = member_lists.circle_of(root["of"], root["name"])
        return await _user_page(info, listing, DEFAULT_CIRCLE_MEMBERS, Span(first, after, last, before))


async def _decided(context: Context, member: str) -> relations.Decided:
    """Returns what the viewer has decided about the member."""
    viewer = context.subject
    if viewer is None or viewer == member:
        return relations.Decided()
    loader = context.loader("decided about members", lambda: loaders.decided(context.db, viewer=viewer))
    return await loader.load(member) or relations.Decided()


async def _user_page(info: Info, listing: MemberListing, default: int, span: Span) -> Connection[User]:
    return Connection(page=await PAGES.spanned(info, listing, span, default=default))


@strawberry.type
class UserQuery:
    @strawberry.field(description="The member with this id; null if there is none whom the viewer can see.")
    async def user(self, info: Info, id: Annotated[strawberry.ID, described("The member's id.")]) -> User | None:
        try:
            key = Kind.key_in(info.context, USER.name, id)
        except errors.NotFound:
            return None
        return as_type(User, await load_one(info, USER, key))


@strawberry.type
class UserViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The viewer as a member; null before joining.")
    async def user(self, info: Info) -> User | None:
        return as_type(User, await load_one(info, USER, self.caller.subject))

    @strawberry.field(
        description="The members whom the viewer has blocked, by id. Of those who have blocked the viewer, too, you "
        "see only the name that they had when the viewer blocked them, or their subject.",
        metadata=costs(row=_MEMBER),
    )
    async def blocked_users(
        self,
        info: Info,
        first: First = DEFAULT_FOLLOWERS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[User] | None:
        listing = member_lists.blocked_by(self.caller.subject)
        page = await _BLOCKED.spanned(info, listing, Span(first, after, last, before), default=DEFAULT_FOLLOWERS)
        return Connection(page=page)


@strawberry.type
class AuthorUser:
    user: User | None = related(
        USER.name, "id", description="The author as a member; null if they are none whom the viewer can see."
    )

    @reads(
        "id",
        "name",
        description="The present name of the author as a member; `name` if they are none whom the viewer can see.",
    )
    @staticmethod
    async def display_name(root: strawberry.Parent[Source], info: Info) -> str:
        member = await loader_of(USER, {"name": 1})(info.context).load(root["id"])
        name: str = root["name"] if member is None else member["name"]
        return name
