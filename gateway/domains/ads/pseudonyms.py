"""The secret that hashes the user ids of ads."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portico.gateway.settings import PREFIX, Settings, SettingsError, kept_secret
from portico.resolvers.ads.pseudonyms import Pseudonyms
from portico.resolvers.ads.settings import AdsSettings
from portico.resolvers.declarations import Resources, Service
from portico.resolvers.documents import Database

_MIN_BYTES = 32


def secret_of(settings: Settings, own: AdsSettings) -> str:
    """Returns the secret: the setting, or one derived from the secret of tokens, or a generated one.

    Raises SettingsError for a secret that is too short, and in production instead of generating one: other gateways
    would not have it, and would count the same browser separately.
    """
    if own.ad_secret is not None:
        if len(own.ad_secret.encode()) < _MIN_BYTES:
            raise SettingsError(f"{PREFIX}AD_SECRET must have {_MIN_BYTES} bytes or more.")
        return own.ad_secret
    tokens = settings.signing_secret()
    if tokens is not None:
        return hmac.new(tokens.encode(), b"user ids of ads", hashlib.sha256).hexdigest()
    if settings.production:
        raise SettingsError(
            f"{PREFIX}AD_SECRET must be set, because {PREFIX}PRODUCTION is true and there is no {PREFIX}JWT_SECRET "
            "to derive it from. Give all gateways the same value."
        )
    return kept_secret(settings.data_dir / "ad-secret")


def of(resources: Resources) -> Pseudonyms:
    """Returns the pseudonyms of this deployment. Raises SettingsError."""
    return Pseudonyms(secret_of(resources.of(Settings), resources.of(AdsSettings)))


@asynccontextmanager
async def _pseudonyms(settings: Resources, _db: Database) -> AsyncIterator[Pseudonyms]:
    yield of(settings)


SERVICE = Service(Pseudonyms, _pseudonyms)
