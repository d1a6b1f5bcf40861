"""The secret of cursors."""

from __future__ import annotations

from portico.resolvers.cursors import Cursors
from portico.resolvers.documents import Database
from portico.resolvers.shared_secrets import shared_secret, stored_secret

from .settings import Settings, SettingsError

_NAME = "cursors"


async def cursors_of(settings: Settings, db: Database) -> Cursors:
    """Returns the cursors of the deployment. Their key is derived from the secret that signs tokens.

    A deployment whose tokens are signed elsewhere has no such secret. Its gateways then share one in the database.

    Raises:   SettingsError if the gateway may not store a secret that is missing.
    """
    signing = settings.signing_secret()
    if signing is not None:
        return Cursors(signing.encode())
    if not settings.read_only:
        return Cursors(await shared_secret(db, _NAME))
    stored = await stored_secret(db, _NAME)
    if stored is None:
        raise SettingsError(
            "The database has no secret for cursors, and PORTICO_READ_ONLY does not allow to store one. "
            "Start a gateway without PORTICO_READ_ONLY once, or set PORTICO_JWT_SECRET."
        )
    return Cursors(stored)
