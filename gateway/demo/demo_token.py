"""The token of the demo: it may do everything, and is kept, so that GraphiQL's tabs stay as they are."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from pathlib import Path

from portico.gateway.auth import Authenticator, InvalidToken
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.schema.roles import Role

SUBJECT = "demo"
_LASTS = timedelta(days=7)


def make(settings: Settings) -> str:
    """The kept token where it is still good, else a new one, which is kept."""
    path = settings.data_dir / "demo-token"
    authenticator = Authenticator(settings)
    if path.exists():
        token = path.read_text().strip()
        try:
            authenticator.check_own(token)
        except InvalidToken:
            pass
        else:
            return token
    token = authenticator.issue(SUBJECT, [Role.ADMIN], now=SystemClock().now(), lasts=_LASTS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(token)
    _read.cache_clear()
    return token


def read(settings: Settings) -> str | None:
    return _read(settings.data_dir / "demo-token")


@lru_cache(maxsize=8)
def _read(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None
