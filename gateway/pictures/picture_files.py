"""Picture files that imports name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from portico.resolvers.errors import InvalidInput

_PIECE = 256 * 1024


class PictureFile:
    """A picture file that a record of an import names.

    The name is relative to the folder of the import file, or to the folder next to it with the same name: `photos/` for
    `photos.jsonl`.
    """

    def __init__(self, records: Path, name: str) -> None:
        """Raises InvalidInput if the file is outside of the folder, or does not exist."""
        folder = records.parent
        namesake = folder / records.name.partition(".")[0]
        try:
            found = [place / name for place in (folder, namesake) if (place / name).is_file()]
            self._path = found[0] if found else folder / name
            is_inside = self._path.resolve().is_relative_to(folder.resolve())
        except (OSError, ValueError):
            # No file can have this name, e.g. because it is too long or contains NUL.
            raise InvalidInput("there is no such file", "file") from None
        if not is_inside:
            raise InvalidInput("the file must be in the folder of the import", "file")
        if not found:
            raise InvalidInput("there is no such file", "file")

    async def read(self) -> AsyncIterator[bytes]:
        file = await asyncio.to_thread(self._path.open, "rb")
        try:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                yield piece
        finally:
            await asyncio.to_thread(file.close)
