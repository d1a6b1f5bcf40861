"""Maps of a part of the world."""

from typing import Annotated

import strawberry

from portico.loaders.declaring import batched
from portico.resolvers import errors
from portico.resolvers.game.world import maps
from portico.schema.context import Info
from portico.schema.fields import as_type, computed, costs, related, stored
from portico.schema.inputs import described
from portico.schema.kinds import Kind
from portico.schema.parts import part_id

from .locations import LOCATION, Direction, Location

_DEFAULT_STEPS = 2
_DEFAULT_ROOMS = 50
_areas = batched(maps.find_maps)


@strawberry.type(description="A room of a map.")
class MapRoom:
    id: strawberry.ID = part_id(
        "MapRoom", lambda one: f"{one['start']}.{'.'.join(one['path'])}.{one['to']}", "start", "path", "to"
    )
    steps: int = computed(
        lambda one: len(one["path"]), "path", description="The steps of a shortest way to it; 0 for the first room."
    )
    path: list[Direction] = stored(
        length=maps.MAX_STEPS, description="The directions of a shortest way from the first room to it."
    )
    location: Location = related(LOCATION.name, "to", description="The room, with its exits.")


@strawberry.type
class MapQuery:
    @strawberry.field(
        description="A map of a part of the world: the rooms that exits lead to within some steps from a room, nearest "
        "first. Null if there is no such room. An exit of a shown room whose `locationId` is not on the map leads out "
        "of it.",
        metadata=costs(length=maps.MAX_ROOMS, each="first", extra=100),
    )
    async def world_map(
        self,
        info: Info,
        location_id: Annotated[strawberry.ID, described("The room in the middle of the map.")],
        steps: Annotated[int, described(f"How far the map reaches, 0 to {maps.MAX_STEPS} steps.")] = _DEFAULT_STEPS,
        first: Annotated[
            int, described(f"The most rooms, 1 to {maps.MAX_ROOMS}. The cost of the operation counts as many.")
        ] = _DEFAULT_ROOMS,
    ) -> list[MapRoom] | None:
        with errors.InvalidInput.collect() as check:
            check(_require_between, "steps", steps, 0, maps.MAX_STEPS)
            check(_require_between, "first", first, 1, maps.MAX_ROOMS)
        context = info.context
        try:
            start = Kind.key_in(context, LOCATION.name, location_id)
        except errors.NotFound:
            return None
        loader = context.loader("maps", lambda: _areas(context.reading))
        found = await loader.load(maps.Area(start, steps, first))
        if found is None:
            return None
        return as_type(list[MapRoom], [{"start": start, "to": one.to, "path": one.path} for one in found])


def _require_between(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        text = f"`{name}` must be between {least} and {most}; got {value}."
        raise errors.InvalidInput(text, name, code=errors.InvalidInput.OUT_OF_RANGE, least=least, most=most)
