"""Products with slugs, the writes to them, and what these writes leave behind."""

from __future__ import annotations

from typing import Any

from portico.testing.kits import Failing, Failure, Given
from portico.testing.stages import Case, Stage
from tests.catalog.support.cases import id_and_nonce
from tests.support.harness import GatewayClient, create_category, create_product, product_input
from tests.support.leftovers import LONG_AGO, OP, Left

State = dict[str, str]
SLUGS = "product_slugs"
TWO: State = {"blue": "S", "green": "O"}


async def found(gateway: GatewayClient) -> State:
    """Returns the SKU of the product that each slug finds, of all slugs that were ever claimed here."""
    names = ("blue", "green", "red")
    fields = " ".join(f'{name}: product(slug: "{name}") {{ sku slug }}' for name in names)
    products = (await gateway.data(f"{{ {fields} }}")).items()
    assert all(product is None or product["slug"] == name for name, product in products)
    return {name: product["sku"] for name, product in products if product is not None}


class Slugs(Stage):
    """Two products with slugs, in one category, and another category to move them to."""

    collections = ("categories", "products", SLUGS, "stock", "operations", "intents")
    # A call that has claimed the slug of a new product has a minute to insert it. Its product is then settled first.
    job_seconds = 61
    next_run = 6
    least = (3, 3)
    before = TWO
    cases = {  # noqa: RUF012 - no test changes it
        "createProduct": Case(
            "createProduct",
            lambda stage: product_input(sku="N", slug="red", categoryIds=[stage.place]),
            "ProductPayload",
            {**TWO, "red": "N"},
        ),
        "createProduct in no category": Case(
            "createProduct", lambda _stage: product_input(sku="N", slug="red"), "ProductPayload", {**TWO, "red": "N"}
        ),
        "createProduct with a slug that is taken": Case(
            "createProduct", lambda _stage: product_input(sku="N", slug="blue"), "SlugTaken", TWO
        ),
        "createProduct with a SKU that is taken": Case(
            "createProduct", lambda _stage: product_input(sku="S", slug="red"), "SkuTaken", TWO
        ),
        "updateProduct": Case(
            "updateProduct",
            lambda stage: {**id_and_nonce(stage.product), "slug": "red"},
            "ProductPayload",
            {"red": "S", "green": "O"},
        ),
        "updateProduct and its categories": Case(
            "updateProduct",
            lambda stage: {**id_and_nonce(stage.product), "slug": "red", "categoryIds": [stage.place]},
            "ProductPayload",
            {"red": "S", "green": "O"},
        ),
        "updateProduct with a slug that is taken": Case(
            "updateProduct", lambda stage: {**id_and_nonce(stage.product), "slug": "green"}, "SlugTaken", TWO
        ),
        "updateProduct without a slug": Case(
            "updateProduct",
            lambda stage: {**id_and_nonce(stage.product), "slug": None},
            "ProductPayload",
            {"green": "O"},
        ),
        "deleteProduct": Case(
            "deleteProduct", lambda stage: id_and_nonce(stage.product), "DeletedPayload", {"green": "O"}
        ),
    }
    product: Given

    async def build(self) -> None:
        self.place = (await create_category(self.gateway, slug="place"))["id"]
        self.product = await create_product(self.gateway, sku="S", slug="blue")
        await create_product(self.gateway, sku="O", slug="green")

    async def state(self) -> State:
        return await found(self.gateway)

    async def run_jobs(self, *, seconds: int | None = None) -> None:
        """Runs the jobs, and once more after what they have left to their next run."""
        await super().run_jobs(seconds=seconds)
        await super().run_jobs(seconds=0)

    async def assert_settled(self) -> None:
        claims = await self.gateway.db[SLUGS].find({}).to_list()
        assert [claim for claim in claims if "at" in claim] == []
        assert {claim["_id"]: claim["sku"] for claim in claims} == await self.state()
        await super().assert_settled()


async def claimed_slug(gateway: GatewayClient) -> Left:
    """Leaves a slug that no product has got."""
    made = await create_product(gateway)
    product = await gateway.stored("products", {"sku": made["sku"]})
    left: dict[str, Any] = {"_id": "left", "sku": made["sku"], "product": product["_id"], "by": OP, "at": LONG_AGO}
    await gateway.db[SLUGS].insert_one(left)
    return SLUGS, {"by": OP}


async def _create_slug_taken(gateway: GatewayClient) -> Failure:
    other = await create_product(gateway, slug="taken")
    return Failure(product_input(slug="taken"), lambda: gateway.result("deleteProduct", id_and_nonce(other)))


async def _update_slug_taken(gateway: GatewayClient) -> Failure:
    other, one = await create_product(gateway, slug="taken"), await create_product(gateway)
    given = {**id_and_nonce(one), "slug": "taken"}
    return Failure(given, lambda: gateway.result("deleteProduct", id_and_nonce(other)))


FAILURES: dict[tuple[str, str], Failing] = {
    ("createProduct", "SlugTaken"): _create_slug_taken,
    ("updateProduct", "SlugTaken"): _update_slug_taken,
}
