"""Notifications: what members are notified of, and what they have read of it."""
