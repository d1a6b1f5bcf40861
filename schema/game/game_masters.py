"""The role of those who direct the game."""

from portico.schema.roles import Role

GAME_MASTER = Role("GAME_MASTER", "The world of the game.")
