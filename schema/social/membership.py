"""The mutations of members: joining, the profile, circles and blocks."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import strawberry

from portico.resolvers.social import member_edits, relation_edits
from portico.resolvers.social.member_search import all_members
from portico.resolvers.social.members import MEMBERS, MemberDocument
from portico.resolvers.social.settings import SocialSettings
from portico.schema.connections import Edge, edge_of
from portico.schema.context import Info
from portico.schema.errors import Conflict, InvalidInput, NotFound
from portico.schema.fields import as_document, as_type
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind
from portico.schema.mutations import mutation
from portico.schema.viewer import ShowsViewer

from .users import USER, User


@strawberry.input(
    description="Values of a profile. Omitted values stay as they are; null and empty values are cleared."
)
class ProfileInput:
    about: strawberry.Maybe[str | None] = strawberry.field(description="Up to 10,000 characters.")
    location: strawberry.Maybe[str | None] = strawberry.field(description="Up to 200 characters.")
    website: strawberry.Maybe[str | None] = strawberry.field(description="An http or https address.")
    birth_year: strawberry.Maybe[int | None] = strawberry.field(description="From 1900 to this year.")
    interests: strawberry.Maybe[list[str] | None] = strawberry.field(
        description="Up to 50 texts of up to 100 characters; the new list as a whole."
    )

    def values(self) -> dict[str, Any]:
        """Returns the given values, with the names of `member_edits`."""
        names = ("about", "location", "website", "birth_year", "interests")
        return {name: found.value for name in names if (found := getattr(self, name)) is not None}


@strawberry.input(description="A new member: the viewer.")
class JoinInput:
    name: str = strawberry.field(description="1 to 80 characters.")
    profile: ProfileInput | None = strawberry.field(default=None, description="What the viewer tells about themselves.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Changes of the viewer's name and profile. Omitted values stay as they are.")
class UpdateProfileInput:
    name: str | None = strawberry.field(
        default=None, description="1 to 80 characters. Posts and comments show a new name within a minute."
    )
    profile: ProfileInput | None = strawberry.field(default=None, description="The values to change.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A member and one of the viewer's circles.")
class CircleInput:
    user_id: strawberry.ID = strawberry.field(description="Another member.")
    circle: str = strawberry.field(description="The name of the circle: 1 to 64 characters of any text.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A member to block or to unblock.")
class BlockInput:
    user_id: strawberry.ID = strawberry.field(description="Another member.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="The member after the write.")
class UserPayload(ShowsViewer):
    user: User = strawberry.field(description="The current member.")

    @strawberry.field(description="The member as a row of `users`.")
    def user_edge(self, info: Info) -> Edge[User]:
        return edge_of(info.context, MEMBERS.name, all_members(), as_document(self.user))


JoinResult = Annotated[
    UserPayload | Conflict | InvalidInput,
    strawberry.union("JoinResult", description="The result of joining. A second attempt to join is a Conflict."),
]
UserResult = Annotated[
    UserPayload | NotFound | InvalidInput,
    strawberry.union("UserResult", description="The result of a change by a member."),
]


@strawberry.type
class MembershipMutation:
    @mutation(description="Makes the viewer a member, once.")
    async def join(self, info: Info, input: JoinInput) -> JoinResult | None:
        joined = await member_edits.join(
            info.context.db,
            subject=info.context.require_caller().subject,
            name=input.name,
            profile=_values(input.profile),
            **info.context.operation,
        )
        return _payload(joined)

    @mutation(description="Changes the viewer's name and profile.")
    async def update_profile(self, info: Info, input: UpdateProfileInput) -> UserResult | None:
        changed = await member_edits.update_profile(
            info.context.db,
            subject=info.context.require_caller().subject,
            name=input.name,
            profile=_values(input.profile),
            rate=info.context.resources.of(SocialSettings).rename_rate,
            **info.context.operation,
        )
        return _payload(changed)

    @mutation(
        description="Puts a member into a circle of the viewer, and so follows them. A new name makes a new circle; a "
        "viewer can have 200."
    )
    async def add_to_circle(self, info: Info, input: CircleInput) -> UserResult | None:
        return await _change(info, relation_edits.add_to_circle, input.user_id, circle=input.circle)

    @mutation(description="Takes a member out of a circle of the viewer.")
    async def remove_from_circle(self, info: Info, input: CircleInput) -> UserResult | None:
        return await _change(info, relation_edits.remove_from_circle, input.user_id, circle=input.circle)

    @mutation(
        description="Blocks a member: the viewer does not exist for them, and neither sees posts or comments of the "
        "other. Circles stay as they are."
    )
    async def block(self, info: Info, input: BlockInput) -> UserResult | None:
        return await _change(info, relation_edits.block, input.user_id)

    @mutation(description="Takes a block back.")
    async def unblock(self, info: Info, input: BlockInput) -> UserResult | None:
        return await _change(info, relation_edits.unblock, input.user_id)


async def _change(
    info: Info, edit: Callable[..., Awaitable[MemberDocument]], user_id: str, **given: str
) -> UserPayload:
    """Makes a change of the graph by the viewer, within the viewer's rate."""
    context = info.context
    changed = await edit(
        context.db,
        member=context.require_caller().subject,
        other=Kind.key_in(info.context, USER.name, user_id),
        rate=context.resources.of(SocialSettings).social_rate,
        **given,
        **context.operation,
    )
    return _payload(changed)


def _values(profile: ProfileInput | None) -> dict[str, Any]:
    return {} if profile is None else profile.values()


def _payload(member: MemberDocument) -> UserPayload:
    return UserPayload(user=as_type(User, member))
