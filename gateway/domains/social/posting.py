"""What the social network declares about posts: jobs, invariants and metrics."""

from __future__ import annotations

from datetime import timedelta

from portico.gateway.settings import Settings
from portico.resolvers.domains import Gauge, Job, Turn
from portico.resolvers.social import fan_out, post_jobs
from portico.resolvers.social.settings import SocialSettings


async def _deliver_posts(turn: Turn) -> int:
    most = turn.resources.of(SocialSettings).max_fan_out
    return await fan_out.deliver_posts(turn.db, now=turn.now, max_fan_out=most)


async def _finish_posts(turn: Turn) -> int:
    # A repeated call must not create a deleted post again, so the post stays while its key can.
    kept = max(post_jobs.KEPT, timedelta(hours=turn.resources.of(Settings).key_hours))
    return await post_jobs.finish_posts(turn.db, now=turn.now, kept=kept)


JOBS = (Job(fan_out.JOB, _deliver_posts, is_shared=True), Job("finish-posts", _finish_posts))
GAUGES = (
    Gauge(
        "portico_fan_out_lag_seconds",
        "The age of the oldest post that some news feeds may lack; 0 if there is none.",
        fan_out.oldest_pending,
    ),
)
