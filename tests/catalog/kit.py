"""What the domain catalog tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit, read_budgets
from tests.catalog.support import cases, failures, images, leftovers, seeds, slugs, stages
from tests.support.selections import DELETED, INVALID, NOT_FOUND

_CATEGORY = "... on CategoryPayload { category { id slug name breadcrumbs { categoryId slug name } parent { id } } }"
_PRODUCT = (
    "... on ProductPayload { product { __typename id sku slug title nonce description "
    "pricing { list { amount currency } retail { amount } savings { amount } pctSavings } "
    "categories { slug } properties { name value } issueDate } }"
)
_EDIT_CONFLICT = "... on ProductEditConflict { current { title nonce } }"
_IMAGES = f"... on ImagesPayload {{ product {{ sku {images.IMAGES} }} category {{ slug {images.IMAGES} }} }}"
MUTATIONS = {
    "createCategory": f"{_CATEGORY} {INVALID} ... on SlugTaken {{ slug }}",
    "renameCategory": f"{_CATEGORY} {INVALID} ... on SlugTaken {{ slug }}",
    "moveCategory": f"{_CATEGORY} {NOT_FOUND}",
    "deleteCategory": f"{DELETED} {NOT_FOUND}",
    "createProduct": f"{_PRODUCT} {INVALID} ... on SkuTaken {{ sku }} ... on SlugTaken {{ slug }}",
    "updateProduct": f"{_PRODUCT} {INVALID} {_EDIT_CONFLICT} ... on SlugTaken {{ slug }}",
    "addImage": f"{_IMAGES} {INVALID}",
    "removeImage": f"{_IMAGES} {NOT_FOUND}",
    "deleteProduct": f"{DELETED} {NOT_FOUND} {_EDIT_CONFLICT}",
}


KIT = Kit(
    adds=("products", "Product"),
    mutations=MUTATIONS,
    inputs=cases.CASES,
    # Its input contains a file. `test_images` has the cases.
    untried=("addImage",),
    failures={**failures.FAILURES, **slugs.FAILURES},
    unfailed={
        # The input of an edit is checked only if its product exists. A conflict is temporary.
        ("updateProduct", "InvalidInput"),
        ("moveCategory", "Conflict"),
        ("deleteCategory", "Conflict"),
        *(("addImage", name) for name in ("UnacceptableFile", "NotFound", "InvalidInput", "Conflict")),
    },
    leftovers={
        "finish-categories": (
            leftovers.pending_category,
            leftovers.moving_category,
            leftovers.deleting_category,
            leftovers.renamed_category,
        ),
        "finish-products": (leftovers.product_intent, leftovers.incoming_product, leftovers.deleting_product),
        "settle-slugs": (slugs.claimed_slug,),
        "settle-images": (leftovers.unsettled_image,),
        "upgrade-documents": (leftovers.old_product,),
    },
    budgets=read_budgets(__file__),
    scattered={
        "find images unsettled",
        "find products images._id",
        "find products incoming",
        "find products deleting.at",
        "find product_slugs at",
        "find product_slugs _id at",
        "find products schema_version",
        "find products $or upgrade_failed",
    },
    stages=(stages.Hierarchy, stages.Products, slugs.Slugs),
    seed=seeds.seed,
)
