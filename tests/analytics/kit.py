"""What the domain analytics tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit, read_budgets
from tests.analytics.support import hit_leftovers, seeds, session_leftovers

# Each entry of a batch has an id of its own, so that it can be sent again in any batch.
BATCHES = ("logEvents", "recordHits", "recordSessions")


KIT = Kit(
    adds=("pageCounts", "LogEvent"),
    untried=BATCHES,
    unfailed={
        # Batches have no key.
        *((name, "InvalidInput") for name in BATCHES),
    },
    leftovers={
        "forget-log-events": (hit_leftovers.old_log_event,),
        "roll-up-log-days": (hit_leftovers.uncounted_log_event,),
        "settle-hits": (hit_leftovers.sealed_flush,),
        "forget-hit-ids": (hit_leftovers.old_hit_id,),
        "roll-up-sessions": (session_leftovers.pending_session,),
    },
    budgets=read_budgets(__file__),
    scattered={
        "aggregate analytics.log_events uncounted",
        "aggregate analytics.page_days ",
        "find analytics.log_events time",
        "aggregate analytics.session_roll_ups level parents",
        "aggregate analytics.sessions ",
        "find analytics.hit_days ",
        "find analytics.hit_months ",
        "find analytics.session_roll_ups level",
        "find analytics.sessions ",
        "find analytics.sessions pending_since",
    },
    seed=seeds.seed,
)
