"""Photos: pictures among the nodes of the site."""

from __future__ import annotations

from datetime import datetime

import strawberry

from .content import ContentNode
from .fields import stored
from .scalars import BigInt


@strawberry.type(description="A picture.")
class Photo(ContentNode):
    content_type: str = stored(
        "detail.content_type", default="application/octet-stream", description="The media type of the bytes."
    )
    length: BigInt = stored("detail.length", default=0, description="Bytes.")
    width: int = stored("detail.width", default=0, description="Pixels.")
    height: int = stored("detail.height", default=0, description="Pixels.")
    checksum: str = stored("detail.checksum", default="", description="SHA-256 of the bytes, in hexadecimal.")
    locked: datetime | None = stored(
        "detail.locked", description="When an upload in progress began; null when the photo is whole."
    )
