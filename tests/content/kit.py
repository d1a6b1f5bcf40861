"""What the domain content tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit
from tests.content.support import cases, failures, leftovers, photo_scene, seeds, stages
from tests.support.selections import DELETED, INVALID, NOT_FOUND

_CONTENT = (
    "... on ContentPayload { content { __typename id slug path title tags nonce author { userId name } created updated "
    "... on Page { text } ... on BlogEntry { text publishOn } ... on Section { kind } } }"
)
_CONTENT_CONFLICT = "... on EditConflict { current { title nonce } baseText diff mergedText }"
MUTATIONS = {
    "createSection": f"{_CONTENT} {INVALID} ... on SlugTaken {{ slug }}",
    "createPage": f"{_CONTENT} {INVALID} ... on SlugTaken {{ slug }}",
    "createBlogEntry": f"{_CONTENT} {INVALID} ... on SlugTaken {{ slug }}",
    "editText": f"{_CONTENT} {INVALID} {_CONTENT_CONFLICT}",
    "editMetadata": f"{_CONTENT} {INVALID} {_CONTENT_CONFLICT} ... on SlugTaken {{ slug }}",
    "restoreRevision": f"{_CONTENT} {INVALID} {_CONTENT_CONFLICT}",
    "addTags": f"{_CONTENT} {INVALID}",
    "removeTags": f"{_CONTENT} {INVALID}",
    "deleteContent": f"{DELETED} {NOT_FOUND} {_CONTENT_CONFLICT}",
}


KIT = Kit(
    adds=("content", "Photo"),
    mutations=MUTATIONS,
    inputs=cases.CASES,
    # Their inputs contain files. `test_photo_keys` has the cases.
    untried=("uploadPhoto", "replacePhoto"),
    failures=failures.FAILURES,
    unfailed=failures.ELSEWHERE,
    leftovers={
        "finish-content": (
            leftovers.pending_content,
            leftovers.deleting_content,
            leftovers.unrevised_content,
            leftovers.content_intent,
        ),
        "finish-uploads": (
            leftovers.stalled_upload,
            leftovers.replaced_photo,
            leftovers.unsettled_file,
            leftovers.unfinished_thumbnail,
            leftovers.removed_file,
        ),
    },
    scattered={
        "find cms.assets.files metadata.sweep",
        "find cms.nodes $or upgrade_failed",
        "find cms.nodes pending.at",
        "find cms.nodes unrevised.at",
        "find cms.nodes deleting.at",
        "find cms.nodes ",
        "find cms.nodes type unrevised",
        "find cms.revisions ",
        "find cms.nodes detail.upload.until",
        "find cms.nodes detail.replaced.at",
        "find cms.nodes detail.file type",
        "find cms.assets.files metadata.unsettled",
        "find cms.assets.files metadata.removed",
        "find cms.assets.files metadata.removed metadata.unsettled",
        "find cms.assets.chunks ",
    },
    stages=(stages.Site, photo_scene.Photos, photo_scene.Uploads),
    seed=seeds.seed,
)
