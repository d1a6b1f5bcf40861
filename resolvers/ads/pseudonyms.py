"""Pseudonyms of browsers: what is stored instead of the user ids that pages send."""

from __future__ import annotations

import hashlib
import hmac

from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import check_length

MAX_USER_ID = 1_000


class Pseudonyms:
    """Hashes user ids with the secret of the deployment. A resource of the domain.

    A user id is opaque: any text of 1 to 1,000 characters without NUL. Without the secret, nobody can find out which
    user id a profile belongs to, not even by trying all user ids.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def of(self, user_id: str, *path: str) -> str:
        """Returns the `_id` of the profile: HMAC-SHA-256, 64 hex digits. Raises InvalidInput for an invalid user id."""
        if not user_id:
            raise InvalidInput("`userId` must not be empty.", *(path or ("user_id",)), code=InvalidInput.EMPTY)
        check_length(user_id, *(path or ("user_id",)), longest=MAX_USER_ID)
        return hmac.new(self._secret, user_id.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
