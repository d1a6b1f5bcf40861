"""The role of those who keep the catalog."""

from portico.schema.roles import Role

MERCHANT = Role("MERCHANT", "The catalog and its stock.")
