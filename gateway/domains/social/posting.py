"""What the social network declares about posts: jobs, invariants and metrics."""

from __future__ import annotations

from datetime import timedelta

from portico.gateway.settings import Settings
from portico.resolvers.declarations import Gauge, Job, Resources
from portico.resolvers.problems import Invariant
from portico.resolvers.social import fan_out, post_checks, post_jobs, renames
from portico.resolvers.social.fresh_posts import FreshPosts
from portico.resolvers.social.settings import SocialSettings


def limits_of(resources: Resources) -> fan_out.Limits:
    """Returns the limits of the delivery from the settings."""
    settings = resources.of(SocialSettings)
    return fan_out.Limits(settings.max_fan_out, timedelta(hours=settings.news_hours))


async def _deliver_posts(run: Job.Run) -> int:
    fresh, woken = run.resources.get(FreshPosts), run.resources.woken(fan_out.JOB)
    return await fan_out.deliver_posts(run.db, limits_of(run.resources), now=run.now, woken=woken, fresh=fresh)


async def _finish_posts(run: Job.Run) -> int:
    # A repeated call must not create a deleted post again, so the post stays while its key can.
    kept = max(post_jobs.KEPT, timedelta(hours=run.resources.of(Settings).key_hours))
    return await post_jobs.finish_posts(run.db, now=run.now, kept=kept)


async def _copy_names(run: Job.Run) -> int:
    return await renames.copy_names(run.db, now=run.now)


INVARIANTS = (
    Invariant(
        "Every entry of a news feed, every comment page and every vote belongs to a post.", post_checks.find_strays
    ),
    Invariant(
        "Every public post is in the news feeds of all who followed its author, or is merged on read.",
        post_checks.find_undelivered,
    ),
    Invariant("Every post counts its comments, and has all its comment pages.", post_checks.find_wrong_comments),
    Invariant("Every poll counts its votes, one for each voter.", post_checks.find_wrong_votes),
    Invariant("Posts and comments have the current names of members.", post_checks.find_outdated_names),
)
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
