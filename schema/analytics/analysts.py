"""The role of those who read the analytics."""

from portico.schema.roles import Role

ANALYST = Role("ANALYST", "Logs and their statistics.")
