"""What the social network declares about posts: jobs, invariants and metrics."""

from __future__ import annotations

from datetime import timedelta

from portico.gateway.settings import Settings
from portico.resolvers.domains import Gauge, Job, Turn
from portico.resolvers.social import fan_out, post_jobs, renames
from portico.resolvers.social.settings import SocialSettings


async def _deliver_posts(turn: Turn) -> int:
    most = turn.resources.of(SocialSettings).max_fan_out
    return await fan_out.deliver_posts(turn.db, now=turn.now, max_fan_out=most)


async def _finish_posts(turn: Turn) -> int:
    # A repeated call must not create a deleted post again, so the post stays while its key can.
    kept = max(post_jobs.KEPT, timedelta(hours=turn.resources.of(Settings).key_hours))
    return await post_jobs.finish_posts(turn.db, now=turn.now, kept=kept)


async def _copy_names(turn: Turn) -> int:
    return await renames.copy_names(turn.db, now=turn.now)


JOBS = (
    Job(fan_out.JOB, _deliver_posts, is_shared=True),
    Job("finish-posts", _finish_posts),
    Job("copy-names", _copy_names),
)
GAUGES = (
    Gauge(
        "portico_fan_out_lag_seconds",
        "The age of the oldest post that some news feeds may lack; 0 if there is none.",
        fan_out.oldest_pending,
    ),
)
