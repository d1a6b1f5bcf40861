"""Notifications in the schema."""
