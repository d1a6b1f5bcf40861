"""Writes that have one effect, also after crashes and beside other writers."""

from __future__ import annotations

from portico.resolvers.attachments import Attachments, Host, Hosts
from portico.resolvers.roll_ups import RollUp
from portico.resolvers.writes import marks
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settlements import Noted
from portico.resolvers.writes.timer import Timer

__all__ = [
    "Attachments",
    "Host",
    "Hosts",
    "Noted",
    "RollUp",
    "Timer",
    "attempts",
    "marks",
]
