"""What operators of the game do: they list, move, spawn and delete characters. Players delete their own."""

from typing import Annotated

import strawberry

from portico.loaders.game.world import characters as loaders
from portico.resolvers.documents import DocumentId
from portico.resolvers.errors import NotFound
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.world import character_edits, characters, creation
from portico.resolvers.game.world.characters import INTRINSICS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.schema import errors
from portico.schema.connections import Connection, Paged
from portico.schema.context import Context, Info
from portico.schema.fields import as_type
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.game.refusals import LimitReached
from portico.schema.inputs import After, Before, First, Last, Span, described, idempotency_key
from portico.schema.kinds import Kind
from portico.schema.mutations import mutation
from portico.schema.viewer import ShowsViewer

from .acting import IntrinsicsInput
from .characters import CHARACTER, Character
from .locations import LOCATION, Location
from .results import CharacterPayload

DEFAULT_CHARACTERS = 20
CHARACTER_PAGES = Paged(CHARACTER.name, loaders.pages, counts=lambda context, _wanted: context.has_role(GAME_MASTER))


@strawberry.input(description="A move of a character by a GAME_MASTER.")
class MoveCharacterInput:
    character_id: strawberry.ID = strawberry.field(description="A character of any player.")
    location_id: strawberry.ID = strawberry.field(description="Any room. It need not have an exit from the other room.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A character to delete.")
class DeleteCharacterInput:
    character_id: strawberry.ID = strawberry.field(
        description="One of the viewer's characters; of any player for a GAME_MASTER."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new character of a player, in a room of your choice.")
class SpawnCharacterInput:
    owner: str = strawberry.field(description="The subject of the player. A player can have 20 characters.")
    location_id: strawberry.ID = strawberry.field(description="The room, which need not be a start room.")
    name: str = strawberry.field(description="1 to 80 characters.")
    character_class: str = strawberry.field(description="Its class, e.g. `wizard`: 1 to 80 characters of any text.")
    intrinsics: IntrinsicsInput | None = strawberry.field(default=None, description="By default 10 each.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type(description="A character that was moved, and the rooms.")
class MoveCharacterPayload(ShowsViewer):
    character: Character = strawberry.field(description="The character after the move.")
    from_: Location | None = strawberry.field(
        name="from",
        description="The room where it was. Null for a repeated call, if it was moved again since.",
    )
    to: Location = strawberry.field(description="The room where it was moved to.")


@strawberry.type(description="The character is deleted.")
class DeleteCharacterPayload(ShowsViewer):
    deleted_id: strawberry.ID = strawberry.field(description="The `id` of the deleted character.")
    location: Location | None = strawberry.field(description="The room where its things lie on the floor.")


MoveCharacterResult = Annotated[
    MoveCharacterPayload | LimitReached | errors.Conflict | errors.NotFound,
    strawberry.union("MoveCharacterResult", description="The result of a move by a GAME_MASTER."),
]
DeleteCharacterResult = Annotated[
    DeleteCharacterPayload | LimitReached | errors.Conflict | errors.NotFound,
    strawberry.union("DeleteCharacterResult", description="The result of deleting a character."),
]
SpawnCharacterResult = Annotated[
    CharacterPayload | LimitReached | errors.Conflict | errors.InvalidInput | errors.NotFound,
    strawberry.union("SpawnCharacterResult", description="The result of creating a character for a player."),
]


@strawberry.type
class KeepingQuery:
    @strawberry.field(
        description="The characters of all players, latest first; those of one player in the order of their creation. "
        "For a GAME_MASTER."
    )
    async def characters(
        self,
        info: Info,
        owner: Annotated[str | None, described("Only the characters of the player with this subject.")] = None,
        location_id: Annotated[
            strawberry.ID | None, described("Only the characters in this room, and those that rest there.")
        ] = None,
        first: First = DEFAULT_CHARACTERS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[Character] | None:
        info.context.require_caller(GAME_MASTER)
        span, room = Span(first, after, last, before), None
        if location_id is not None:
            room = span.beside(DEFAULT_CHARACTERS, _room_key, info.context, location_id)
        listing = characters.listing(owner=owner, room=room)
        page = await CHARACTER_PAGES.spanned(info, listing, span, default=DEFAULT_CHARACTERS)
        return Connection(page=page)


def _room_key(context: Context, location_id: str) -> DocumentId:
    key: DocumentId = Kind.key_argument(context, LOCATION.name, location_id, "location_id")
    return key


@strawberry.type
class KeepingMutation:
    @mutation(
        role=GAME_MASTER,
        description="Moves a character to any room, for example out of one that it cannot leave. A character that "
        "rests comes back there. For a GAME_MASTER.",
    )
    async def move_character(self, info: Info, input: MoveCharacterInput) -> MoveCharacterResult | None:
        context = info.context
        acting = _acting(context, input.character_id, owner=None)
        moved = await character_edits.move_character(
            acting, to=Kind.key_in(info.context, LOCATION.name, input.location_id)
        )
        to = await _room(context, moved.to)
        # No write removes a room.
        assert to is not None
        return MoveCharacterPayload(
            character=as_type(Character, moved.character), from_=await _room(context, moved.source), to=to
        )

    @mutation(
        description="Deletes a character. Everything that it has falls to the floor of its room, and its gold leaves "
        "the world. It counts among the 20 of its player for another day. For its player, or a GAME_MASTER."
    )
    async def delete_character(self, info: Info, input: DeleteCharacterInput) -> DeleteCharacterResult | None:
        context = info.context
        subject = context.require_caller().subject
        owner = None if context.has_role(GAME_MASTER) else subject
        left = await character_edits.delete_character(_acting(context, input.character_id, owner=owner))
        return DeleteCharacterPayload(
            deleted_id=strawberry.ID(Kind.encode_id(CHARACTER.name, left["_id"])),
            location=await _room(context, left["deleted"]["room"]),
        )

    @mutation(
        role=GAME_MASTER,
        description="Creates a character of a player in any room, with the starting gold. For a GAME_MASTER.",
    )
    async def spawn_character(self, info: Info, input: SpawnCharacterInput) -> SpawnCharacterResult | None:
        context = info.context
        given = input.intrinsics or IntrinsicsInput()
        created = await creation.spawn_character(
            context.db,
            context.resources.of(Rooms),
            owner=input.owner,
            room=Kind.key_in(info.context, LOCATION.name, input.location_id),
            name=input.name,
            character_class=input.character_class,
            intrinsics={name: getattr(given, name) for name in INTRINSICS},
            gold=context.resources.of(GameSettings).starting_gold,
            **context.operation,
        )
        return CharacterPayload(character=as_type(Character, created))


def _acting(context: Context, character_id: str, *, owner: str | None) -> Acting:
    key = Kind.key_in(context, CHARACTER.name, character_id)
    if not isinstance(key, DocumentId):
        raise NotFound(CHARACTER.name, key, "A shopkeeper belongs to its room. Change it with an import.")
    return Acting(context.db, context.resources.of(Rooms), key, owner, **context.operation)


async def _room(context: Context, key: DocumentId | None) -> Location | None:
    """Returns the whole room, read after the write; None if it is unknown or gone."""
    found = {} if key is None else await LOCATION.read(context.db, None)([key])
    return as_type(Location, found.get(key))
