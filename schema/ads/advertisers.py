"""The role of those who place ads."""

from portico.schema.roles import Role

ADVERTISER = Role("ADVERTISER", "Ads and campaigns.")
