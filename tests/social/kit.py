"""What the domain social tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit, read_budgets
from tests.social.support import cases, leftovers, post_stages, seeds, stages
from tests.support.selections import DELETED, INVALID, NOT_FOUND

_USER = "... on UserPayload { user { id name } }"
_POST = "... on PostPayload { post { id } }"
MUTATIONS = {
    "join": f"{_USER} ... on InvalidInput {{ path }}",
    **dict.fromkeys(("updateProfile", "addToCircle", "removeFromCircle", "block", "unblock"), f"{_USER} {INVALID}"),
    **dict.fromkeys(("createPost", "commentOnPost", "vote", "deletePostComment"), f"{_POST} {INVALID}"),
    "deletePost": f"{DELETED} {NOT_FOUND}",
}


KIT = Kit(
    adds=("join", "User"),
    mutations=MUTATIONS,
    inputs=cases.CASES,
    # A caller joins once, so there are no two inputs.
    untried=("join",),
    failures=cases.FAILURES,
    unfailed=cases.ELSEWHERE,
    leftovers={
        "finish-relations": (leftovers.uncopied_relation,),
        "deliver-posts": (leftovers.pending_post,),
        "finish-posts": (leftovers.deleted_post, leftovers.removed_comment_of_a_post),
        "copy-names": (leftovers.renamed_member,),
    },
    budgets=read_budgets(__file__),
    scattered={
        "find social.relations uncopied.at",
        "find social.posts _id by.id fan_out.due",
        "find social.posts remove_at",
        "find social.posts removing",
        "find social.members $or",
        "find social.members $or upgrade_failed",
        "find social.relations ",
        "find social.news ",
        "find social.comment_pages ",
        "find social.votes ",
        "find social.posts audience deleted fan_out",
        "find social.posts deleted",
    },
    stages=(
        stages.Circles,
        stages.Names,
        stages.Newcomer,
        post_stages.Posts,
        post_stages.Comments,
        post_stages.LatestComments,
        post_stages.Unfollowed,
    ),
    seed=seeds.seed,
)
