"""The social network: members, circles, posts, walls and news feeds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from portico.gateway.settings import Settings
from portico.resolvers.declarations import Domain, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.social import deliveries, notices, post_events
from portico.resolvers.social.fresh_posts import FreshPosts
from portico.resolvers.social.known_members import KnownMembers
from portico.resolvers.social.member_rates import RATES
from portico.resolvers.social.members import MEMBERS
from portico.resolvers.social.news import NEWS
from portico.resolvers.social.posts import COMMENT_PAGES, POSTS, VOTES
from portico.resolvers.social.relations import RELATIONS
from portico.resolvers.social.settings import SocialSettings
from portico.schema.social import events, feeds, hidden, membership, posts, users
from portico.schema.social import people as people_fields
from portico.schema.social import post_events as post_events_fields
from portico.schema.social.posting import PostingMutation

from . import demo, graph, people, posting
from .wall_posts import WALL_POSTS

_FOLDER = Path(__file__).parent


@asynccontextmanager
async def _delivery_reads(_settings: Resources, _db: Database) -> AsyncIterator[deliveries.DeliveryReads]:
    yield deliveries.DeliveryReads()


# Posts that wait for the job of their process; a few kilobytes each.
_FRESH = 100


@asynccontextmanager
async def _fresh_posts(resources: Resources, _db: Database) -> AsyncIterator[FreshPosts]:
    yield FreshPosts(_FRESH if resources.of(Settings).jobs else 0)


@asynccontextmanager
async def _known_members(_settings: Resources, _db: Database) -> AsyncIterator[KnownMembers]:
    yield KnownMembers()


DOMAIN = Domain(
    name="social",
    about="Members, circles, posts, walls and news feeds.",
    needs=("content",),
    collections=(MEMBERS, RELATIONS, POSTS, COMMENT_PAGES, VOTES, NEWS, RATES),
    settings=SocialSettings,
    events=(*deliveries.SOURCES, *post_events.SOURCES),
    notifications=notices.SOURCES,
    hidden_members=notices.hidden_members,
    services=(
        Service(deliveries.DeliveryReads, _delivery_reads),
        Service(FreshPosts, _fresh_posts),
        Service(KnownMembers, _known_members),
    ),
    jobs=(*graph.JOBS, *posting.JOBS),
    invariants=(*graph.INVARIANTS, *posting.INVARIANTS),
    gauges=posting.GAUGES,
    suggesters=(people_fields.suggest,),
    importers={"people": people.people(), "wall-posts": WALL_POSTS},
    kinds=(users.USER, posts.POST),
    pages=(users.PAGES, posts.LISTED),
    types=(posts.StatusPost, posts.LinkPost, posts.PhotoPost, posts.CheckinPost, posts.PollPost),
    queries=(users.UserQuery, people_fields.PeopleQuery, feeds.TimelineQuery),
    subscriptions=(events.NewsFeedSubscription, post_events_fields.PostSubscription),
    mutations=(membership.MembershipMutation, PostingMutation),
    extensions={
        "Author": (users.AuthorUser,),
        "Post": (hidden.HiddenUnderPost,),
        "User": (feeds.UserWall,),
        "Viewer": (users.UserViewer, feeds.FeedViewer, hidden.HiddenOnWall),
    },
    demo=demo.load,
    examples=(("Social", _FOLDER / "examples.graphql"), ("Social, live", _FOLDER / "live.graphql")),
)
