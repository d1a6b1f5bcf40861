"""Content: sections, pages, blog entries and photos."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from starlette.routing import BaseRoute, Route

from portico.gateway.imports.runs import Importer
from portico.gateway.pictures.checking import PictureProcesses
from portico.gateway.settings import Settings
from portico.gateway.state import State
from portico.resolvers.attachments import Attachments
from portico.resolvers.content import checks, deletion, jobs, photo_checks, photo_jobs, revisions
from portico.resolvers.content.assets import CHUNKS, FILES
from portico.resolvers.content.imports import import_posts
from portico.resolvers.content.nodes import NODES
from portico.resolvers.content.photo_imports import PhotoRecord, import_photos
from portico.resolvers.content.photo_uploads import UploadRules
from portico.resolvers.content.settings import ContentSettings
from portico.resolvers.declarations import Domain, Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.import_outcomes import Outcome
from portico.resolvers.problems import Invariant
from portico.schema.content import creation, edits, photos, suggestions
from portico.schema.content import types as nodes

from . import assets, demo, feeds
from .records import photo_record, post_record


@contextlib.asynccontextmanager
async def _upload_rules(resources: Resources, _db: Database) -> AsyncIterator[UploadRules]:
    settings, own = resources.of(Settings), resources.of(ContentSettings)
    most = settings.max_upload_bytes
    # An upload extends its lock while bytes arrive and are decoded, so the lock need not outlast a longer pause.
    lasts = timedelta(seconds=settings.upload_stall_seconds)
    yield UploadRules(most, lasts, PictureProcesses(max_pixels=own.max_photo_pixels, max_bytes=most))


async def _import_photos(
    db: Database, records: Sequence[PhotoRecord], *, now: datetime, resources: Resources
) -> Sequence[Outcome]:
    return await import_photos(db, records, now=now, rules=resources.of(UploadRules))


async def _finish_content(run: Job.Run) -> int:
    return await jobs.finish_changes(run.db, run.resources.of(Attachments), now=run.now)


async def _finish_uploads(run: Job.Run) -> int:
    return await photo_jobs.finish_uploads(run.db, now=run.now)


def _routes(state: Callable[[], State]) -> Sequence[BaseRoute]:
    return [Route(assets.ROUTE, assets.Assets(state)), Route(feeds.ROUTE, feeds.Feeds(state))]


DOMAIN = Domain(
    name="content",
    about="A site: sections, pages, blog entries and photos.",
    collections=(NODES, FILES, CHUNKS, revisions.REVISIONS),
    hosts=(deletion.HOST,),
    settings=ContentSettings,
    services=(Service(UploadRules, _upload_rules),),
    jobs=(Job("finish-content", _finish_content), Job("finish-uploads", _finish_uploads)),
    invariants=(
        Invariant("Every photo has all its bytes, and they match its checksum.", photo_checks.find_broken_photos),
        Invariant("Every file belongs to a photo, and every chunk to a file.", photo_checks.find_stray_files),
        Invariant(
            "Every content node has a unique path, in a section of the right kind, and the right visibility.",
            checks.find_wrong_nodes,
        ),
        Invariant(
            "The text of every page and entry is in its revisions, and every revision has its node.",
            checks.find_wrong_revisions,
        ),
    ),
    kinds=(nodes.CONTENT, nodes.REVISION),
    pages=(nodes.NODE_PAGES, nodes.ENTRY_PAGES, nodes.REVISION_PAGES),
    types=(nodes.Section, nodes.Page, nodes.BlogEntry, photos.Photo),
    queries=(nodes.ContentQuery,),
    mutations=(creation.ContentMutation, edits.ContentEditMutation, photos.PhotoMutation),
    suggesters=(suggestions.suggest,),
    importers={
        "photos": Importer(
            photo_record, lambda record: f"{record.gallery}/{record.slug}", _import_photos, has_files=True
        ),
        "posts": Importer(post_record, lambda record: "/".join((*record.blog, record.slug)), import_posts),
    },
    routes=_routes,
    error_codes={"RANGE_NOT_SATISFIABLE": "None of the ranges in the header `Range` contains a byte of the photo."},
    demo=demo.load,
    examples=(("Content", Path(__file__).parent / "examples.graphql"),),
)
