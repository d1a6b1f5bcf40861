"""The token of the demo, which allows everything. It is stored, because a new token would reset GraphiQL's tabs."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from pathlib import Path

from portico.gateway.auth import Authenticator, InvalidToken
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.schema.roles import Role

SUBJECT = "demo"
# Members that a visitor of the storefront can sign in as: the demo's viewer, and others whom the viewer meets.
MEMBERS = (SUBJECT, "mara", "ines", "jonas", "teo")
_LASTS = timedelta(days=7)


def get_or_make(settings: Settings) -> str:
    """Returns the stored token if it is valid. Otherwise makes and stores a new one."""
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
    """Returns the stored token, if there is one."""
    return _read(settings.data_dir / "demo-token")


@lru_cache(maxsize=8)
def _read(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None
