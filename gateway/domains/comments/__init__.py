"""Comments: discussions about objects of other domains."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from portico.resolvers.attachments import Hosts
from portico.resolvers.comments import checks, discussion_checks, events, jobs, notices
from portico.resolvers.comments.buckets import BUCKETS
from portico.resolvers.comments.discussions import DISCUSSIONS, DiscussionAttachment
from portico.resolvers.comments.document_storage import COMMENTS
from portico.resolvers.comments.embedded_storage import EMBEDDED_DISCUSSIONS
from portico.resolvers.comments.page_storage import KEYS
from portico.resolvers.declarations import Domain, Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.problems import Invariant
from portico.schema.comments import discussions, posting
from portico.schema.comments.events import CommentSubscription

from . import demo
from .reddit import comments

_FOLDER = Path(__file__).parent


# Discussions that a process knows; a few hundred bytes each.
_KNOWN = 10_000


@asynccontextmanager
async def _known_discussions(_settings: Resources, _db: Database) -> AsyncIterator[discussions.KnownDiscussions]:
    yield discussions.KnownDiscussions(_KNOWN)


async def _finish_comments(run: Job.Run) -> int:
    return await Job.in_sequence(
        partial(jobs.finish_removals, run.db, run.resources.of(Hosts), now=run.now),
        partial(jobs.finish_splits, run.db, now=run.now),
        partial(jobs.finish_comments, run.db, now=run.now),
    )


def _invariants_of(hosts: Hosts) -> Sequence[Invariant]:
    name = "Every discussion has its subject, and every comment its discussion."
    return [Invariant(name, partial(discussion_checks.find_stray_discussions, hosts=hosts))]


DOMAIN = Domain(
    name="comments",
    about="Discussions of products, content and other objects.",
    collections=(DISCUSSIONS, COMMENTS, EMBEDDED_DISCUSSIONS, BUCKETS, KEYS),
    attachments=(DiscussionAttachment(),),
    services=(Service(discussions.KnownDiscussions, _known_discussions),),
    jobs=(Job("finish-comments", _finish_comments),),
    invariants=(
        Invariant(
            "Every discussion counts its comments, every comment counts its replies, and every reply has its parent.",
            checks.find_wrong_discussions,
        ),
    ),
    host_invariants=_invariants_of,
    events=events.SOURCES,
    notifications=notices.SOURCES,
    kinds=(discussions.DISCUSSION, discussions.COMMENT),
    pages=(discussions.COMMENT_PAGES,),
    mutations=(posting.CommentMutation,),
    subscriptions=(CommentSubscription,),
    kind_extensions=discussions.discussed,
    importers={"comments": comments()},
    demo=demo.load,
    examples=(("Comments", _FOLDER / "examples.graphql"), ("Live", _FOLDER / "live.graphql")),
)
