"""The settings of ads."""

from __future__ import annotations

from dataclasses import dataclass

from portico.resolvers.configuration import Secret, setting


@dataclass(frozen=True)
class AdsSettings:
    ad_secret: Secret | None = setting(
        None,
        "The key that hashes the user ids of ads and signs the links of clicks, 32 bytes or more. Unset: derived from "
        "the secret of HS256 tokens, or else a generated key in the data folder.",
    )
    ad_click_hours: float = setting(24.0, "Hours for which the link of a served ad records a click.")
    ad_profile_days: float = setting(30.0, "Days until the events in the profile of a browser are forgotten.")
