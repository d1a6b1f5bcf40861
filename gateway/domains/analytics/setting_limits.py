"""The limits of the settings of analytics."""

from __future__ import annotations

from portico.gateway.settings import PREFIX, Settings, SettingsError
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.resolvers.declarations import Resources

# So many days ago was before 1970, and no event is older.
_MOST_DAYS = 100_000


def require(settings: Resources) -> None:
    """Raises SettingsError for a share of requests above 1 or of a read-only gateway, or for more than 100,000 days."""
    given = settings.of(AnalyticsSettings)
    share = given.log_requests
    if share is not None and settings.of(Settings).read_only:
        raise SettingsError(f"{PREFIX}LOG_REQUESTS must not be set if {PREFIX}READ_ONLY is true: it writes.")
    if share is not None and share > 1:
        raise SettingsError(f"{PREFIX}LOG_REQUESTS must be a share, at most 1; got {share:g}.")
    for name, days in (("LOG_DAYS", given.log_days), ("HIT_ID_DAYS", given.hit_id_days)):
        if days is not None and days > _MOST_DAYS:
            raise SettingsError(
                f"{PREFIX}{name} must be at most {_MOST_DAYS:,} days; got {days:g}. Unset it to keep everything."
            )
