"""Loaders of notifications."""
