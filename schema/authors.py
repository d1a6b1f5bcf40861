"""Authors of stored texts."""

import strawberry

from .fields import stored


@strawberry.type(description="The author of an object, as stored with the object.")
class Author:
    user_id: strawberry.ID = stored("id", description="The subject of the author's token.")
    name: str = stored(
        description="The name in the author's token at the time of writing; the subject if the token had no name."
    )
