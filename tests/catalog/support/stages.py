"""A small hierarchy of categories, and the writes to it."""

from __future__ import annotations

import itertools

from portico.resolvers.catalog.vocabulary import store_words
from portico.testing.kits import Given
from portico.testing.stages import Case, Stage
from tests.catalog.support.cases import id_and_nonce
from tests.support.harness import GatewayClient, assert_invariants, create_category, create_product, product_input

# The answer to a second call without a key if the first call has completed: the gateway cannot know that both are one.
SECOND_CALLS = {
    "createCategory": "SlugTaken",
    "deleteCategory": "NotFound",
    "createProduct": "SkuTaken",
    "updateProduct": "ProductEditConflict",
    "deleteProduct": "NotFound",
}
MARKS = ("pending", "refresh.0", "moving", "deleting")
Ways = dict[str, list[str]]
BEFORE: Ways = {"top": [], "subject": ["top"], "below": ["top", "subject"], "place": []}
AFTER: dict[str, Ways] = {
    "createCategory": {**BEFORE, "new": ["top", "subject"]},
    "renameCategory": {"top": [], "new": ["top"], "below": ["top", "new"], "place": []},
    "moveCategory": {"top": [], "subject": ["place"], "below": ["place", "subject"], "place": []},
    "deleteCategory": {"top": [], "subject": ["top"], "place": []},
}
INPUTS = {
    "createCategory": lambda stage: {"name": "New", "slug": "new", "parentId": stage.subject},
    "renameCategory": lambda stage: {"id": stage.subject, "name": "New", "slug": "new"},
    "moveCategory": lambda stage: {"id": stage.subject, "newParentId": stage.place},
    "deleteCategory": lambda stage: {"id": stage.below},
}
DONE = {name: "DeletedPayload" if name == "deleteCategory" else "CategoryPayload" for name in INPUTS}


class Hierarchy(Stage):
    """Three categories in a line, and another root to move them to."""

    collections = ("categories", "operations")
    job_names = ("finish-categories", "finish-products")
    job_seconds = 6
    finishes = True
    least = (4, 3)
    before = BEFORE
    cases = {name: Case(name, given, DONE[name], AFTER[name]) for name, given in INPUTS.items()}  # noqa: RUF012 - no test changes it

    async def build(self) -> None:
        # Known already, so that the writes store no words.
        await store_words(self.gateway.db, ["new"])
        self.top = (await create_category(self.gateway, slug="top"))["id"]
        self.subject = (await create_category(self.gateway, slug="subject", parentId=self.top))["id"]
        self.below = (await create_category(self.gateway, slug="below", parentId=self.subject))["id"]
        self.place = (await create_category(self.gateway, slug="place"))["id"]

    async def state(self) -> Ways:
        """Returns the slugs of the stored ancestors of each category."""
        found = self.gateway.db["categories"].find({})
        return {category["slug"]: [step["slug"] for step in category["ancestors"]] async for category in found}

    async def assert_sound(self) -> None:
        """Asserts nothing: until a rename or a move has ended, categories below have the ancestors of before."""

    async def assert_settled(self) -> None:
        for mark in MARKS:
            assert await self.gateway.db["categories"].find_one({mark: {"$exists": True}}) is None, mark
        await super().assert_settled()


async def crash_without_a_key(stage: Stage, name: str) -> int:
    """Crashes a call without a key after each change. The jobs finish or undo it, and it can be sent again."""
    case = stage.cases[name]
    for stop in itertools.count():
        given = {**await stage.set(name), "idempotencyKey": None}
        if not await stage.crash(case.mutation, given, stop):
            break
        await stage.run_jobs()
        is_undone = await stage.state() == stage.built
        await stage.assert_is(stage.built, case.after, place=stop)
        again = await stage.typename_of(case.mutation, given)
        assert again == (case.member if is_undone else SECOND_CALLS.get(case.mutation, case.member)), stop
        await stage.assert_is(case.after, place=stop)
    return stop


State = dict[str, tuple[str, list[str]]]
ONE_PRODUCT: State = {"S": ("Old", ["there"])}
WRITES = {
    "createProduct": Case(
        "createProduct",
        lambda stage: product_input(sku="N", title="New", categoryIds=[stage.there, stage.place]),
        "ProductPayload",
        {**ONE_PRODUCT, "N": ("New", ["there", "place"])},
    ),
    "updateProduct": Case(
        "updateProduct",
        lambda stage: {**id_and_nonce(stage.product), "title": "New", "categoryIds": [stage.place]},
        "ProductPayload",
        {"S": ("New", ["place"])},
    ),
    "deleteProduct": Case("deleteProduct", lambda stage: id_and_nonce(stage.product), "DeletedPayload", {}),
}


class Products(Stage):
    """A product in one category, and another category to move it to."""

    collections = ("categories", "products", "stock", "operations", "intents")
    # A call that has announced a product has a minute to insert it.
    job_seconds = 61
    finishes = True
    least = (3, 3)
    before = ONE_PRODUCT
    cases = WRITES
    product: Given

    async def build(self) -> None:
        self.there = (await create_category(self.gateway, slug="there"))["id"]
        self.place = (await create_category(self.gateway, slug="place"))["id"]
        self.product = await create_product(self.gateway, sku="S", title="Old", categoryIds=[self.there])

    async def state(self) -> State:
        found = (await self.gateway.data("{ products { nodes { sku title categories { slug } } } }"))["products"]
        return {one["sku"]: (one["title"], [each["slug"] for each in one["categories"]]) for one in found["nodes"]}

    async def assert_settled(self) -> None:
        await assert_products_settled(self.gateway)


async def assert_products_settled(gateway: GatewayClient) -> None:
    """Asserts that no intent and no mark is left, and that the invariants hold."""
    assert await gateway.db["intents"].find_one({}) is None
    assert await gateway.db["products"].find_one({"incoming.0": {"$exists": True}}) is None
    assert await gateway.db["categories"].find_one({"deleting": {"$exists": True}}) is None
    await assert_invariants(gateway)
