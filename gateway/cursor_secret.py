"""The secret of cursors."""

from __future__ import annotations

from portico.resolvers.cursors import Cursors
from portico.resolvers.documents import Database
from portico.resolvers.shared_secrets import shared_secret

from .settings import Settings


async def cursors_of(settings: Settings, db: Database) -> Cursors:
    """Returns the cursors of the deployment. Their key is derived from the secret that signs tokens.

    A deployment whose tokens are signed elsewhere has no such secret. Its gateways then share one in the database.
    """
    signing = settings.signing_secret()
    return Cursors(await shared_secret(db, "cursors") if signing is None else signing.encode())
