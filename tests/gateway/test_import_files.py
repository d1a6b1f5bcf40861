"""Import files of any size, with any line endings, with damage, and with repeated records."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import orjson
import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.imports.runs import MAX_LINE, Import
from tests.catalog.support.catalog import album, mark_in_stock, product, skus
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.importing import breadcrumbs, category, lines, put, run, write


async def test_the_last_record_of_a_repeated_product_is_kept(gateway: GatewayClient, file: Path) -> None:
    given = [product(sku=f"s{number % 3}", title=f"Title {number}") for number in range(9)]

    done = await put(gateway.db, "products", file, [*given, given[-1]])

    assert done.counts == {"created": 3, "changed": 6, "unchanged": 1}
    assert sorted(await skus(gateway, titlePrefix="Title ")) == ["s0", "s1", "s2"]
    assert await skus(gateway, "TITLE_ASC", titlePrefix="Title ") == ["s0", "s1", "s2"]
    assert await skus(gateway, titleWord="7") == ["s1"]


async def test_the_last_record_is_kept_across_batches(gateway: GatewayClient, file: Path) -> None:
    given = [product(sku=f"s{number % 1100}", title=f"Title {number}") for number in range(3300)]

    done = await put(gateway.db, "products", file, given)

    assert done.counts == {"created": 1100, "changed": 2200}
    assert await skus(gateway, titleWord="2200") == ["s0"]
    assert await skus(gateway, titleWord="3299") == ["s1099"]


async def test_the_last_record_of_a_repeated_category_is_kept(gateway: GatewayClient, file: Path) -> None:
    """This holds even if both records wait for their parent."""
    jazz = [category("jazz", "Jazz", "music"), category("jazz", "Hard Bop", "music")]
    others = [category("pop", "Pop"), category("music", "Music"), category("pop", "Popular", "music")]

    done = await put(gateway.db, "categories", file, [*jazz, *others])

    assert (done.counts, done.bad) == ({"created": 3, "changed": 2}, [])
    assert await breadcrumbs(gateway, "jazz") == ["music/Music", "Hard Bop"]
    assert await breadcrumbs(gateway, "pop") == ["music/Music", "Popular"]


async def test_a_category_does_not_wait_for_an_earlier_record_with_a_missing_parent(
    gateway: GatewayClient, file: Path
) -> None:
    jazz = [category("jazz", "Jazz", parent) for parent in ("none", "nowhere", None)]

    done = await put(gateway.db, "categories", file, [*jazz, category("bop", "Bop", "jazz")])

    assert done.reasons == [
        (1, "parent: there is no category 'none'"),
        (2, "parent: there is no category 'nowhere'"),
    ]
    assert await breadcrumbs(gateway, "bop") == ["jazz/Jazz", "Bop"]


async def test_whitespace_around_a_key_is_ignored(gateway: GatewayClient, file: Path) -> None:
    for expected in ("created", "unchanged"):
        products = await put(gateway.db, "products", file, [product(sku=" a ", title="A", type="T")])
        categories = await put(gateway.db, "categories", file, [{"slug": " music\t", "name": " Music "}])

        assert (products.counts, categories.counts) == ({expected: 1}, {expected: 1})
    again = await put(gateway.db, "products", file, [product(sku=" b"), product(sku="b ")])
    assert again.counts == {"created": 1, "changed": 1}


ONE, OTHER = product(sku="a"), product(sku="b")
CONTENTS: dict[str, tuple[bytes, dict[str, int]]] = {
    "empty": (b"", {}),
    "blank": (b"\n \n\r\n\t\n", {}),
    "empty gzip": (gzip.compress(b""), {}),
    "crlf": (lines([ONE, OTHER], b"\r\n"), {"created": 2}),
    "blank lines": (lines([ONE, OTHER], b"\n\n"), {"created": 2}),
    "no final newline": (lines([ONE]) + lines([OTHER], b""), {"created": 2}),
    "spaces": (b"  " + lines([ONE], b" \n"), {"created": 1}),
    "two gzips": (gzip.compress(lines([ONE])) + gzip.compress(lines([OTHER])), {"created": 2}),
    "one object over many lines": (orjson.dumps(ONE, option=orjson.OPT_INDENT_2), {"failed": 10}),
}


@pytest.mark.parametrize(("content", "counts"), CONTENTS.values(), ids=CONTENTS)
async def test_a_file_may_have_any_line_endings(
    gateway: GatewayClient, file: Path, content: bytes, counts: dict[str, int]
) -> None:
    done = await run(gateway.db, "products", write(file, content))

    assert {name: count if name != "failed" else 10 for name, count in done.counts.items()} == counts
    assert sum(done.progress) == len(content)


async def test_the_readable_part_of_a_truncated_gzip_is_kept(gateway: GatewayClient, file: Path) -> None:
    rng = random.Random(1)
    whole = lines(product(sku=f"s{number}", description=str(rng.random())) for number in range(2000))
    packed = gzip.compress(whole)

    done = await run(gateway.db, "products", write(file, packed[: len(packed) // 2]))

    ((line, reason),) = done.reasons
    assert reason.startswith("the rest of the gzipped file cannot be read: ")
    assert 500 < done.counts["created"] < 1500
    assert line == done.counts["created"] + 1
    stored = done.counts["created"]
    again = await run(gateway.db, "products", write(file, packed))
    assert again.counts == {"created": 2000 - stored, "unchanged": stored}


@pytest.mark.parametrize(
    "content",
    [b"\x1f\x8b", b"\x1f\x8bnonsense", gzip.compress(b"{}" * 50)[:12] + b"\xff" * 50],
    ids=["nothing", "no header", "nonsense"],
)
async def test_a_damaged_gzip_is_reported(gateway: GatewayClient, file: Path, content: bytes) -> None:
    done = await run(gateway.db, "products", write(file, content))

    ((line, reason),) = done.reasons
    assert (line, done.counts) == (1, {"failed": 1})
    assert reason.startswith("the rest of the gzipped file cannot be read: ")


async def test_files_are_imported_in_order_and_reported_by_name(gateway: GatewayClient, tmp_path: Path) -> None:
    first = write(tmp_path / "first.jsonl", lines([product(sku="a", title="One"), b"bad"]))
    second = write(tmp_path / "second.jsonl", lines([b"", b"bad", product(sku="a", title="Two")]))

    done = await run(gateway.db, "products", first, second)

    assert [(one.file, one.line) for one in done.bad] == [(str(first), 2), (str(second), 2)]
    assert done.counts == {"created": 1, "changed": 1, "failed": 2}
    assert await skus(gateway, titlePrefix="Two") == ["a"]


async def test_a_file_that_cannot_be_read_raises_an_os_error(gateway: GatewayClient, tmp_path: Path) -> None:
    work = Import(gateway.db, IMPORTERS["products"], SystemClock(), print, print)

    with pytest.raises(FileNotFoundError):
        await work.run([tmp_path / "none.jsonl"])
    with pytest.raises(IsADirectoryError):
        await work.run([tmp_path])


async def test_only_a_line_that_is_too_long_is_reported(gateway: GatewayClient, file: Path) -> None:
    endless = b'{"sku": "' + b"x" * (2 * MAX_LINE) + b'"}'

    done = await put(gateway.db, "products", file, [product(sku="a"), endless, product(sku="b"), b"bad"])

    assert [line for line, _ in done.reasons] == [2, 4]
    assert done.counts == {"created": 2, "failed": 2}


async def test_only_a_product_that_is_too_large_for_a_document_is_reported(gateway: GatewayClient, file: Path) -> None:
    large = product(sku="large", details={"text": "x" * (MAX_LINE - 1000)})
    names = product(sku="names", details={f"{number}" * 1000: number for number in range(4000)})

    done = await put(gateway.db, "products", file, [product(sku="a"), large, names, product(sku="b")])

    reason = "details: Details have too many characters; 1,000,000 are allowed."
    assert done.reasons == [(2, reason), (3, reason)]
    assert done.counts == {"created": 2, "failed": 2}


async def test_an_import_does_not_change_fields_that_the_file_does_not_have(gateway: GatewayClient, file: Path) -> None:
    """The example is whether a product is in stock."""
    given = album(sku="a", title="One")
    await put(gateway.db, "products", file, [given])
    await mark_in_stock(gateway.db, {"sku": "a"})

    again = await put(gateway.db, "products", file, [given])
    changed = await put(gateway.db, "products", file, [given | {"title": "Two"}])

    assert (again.counts, changed.counts) == ({"unchanged": 1}, {"changed": 1})
    assert await skus(gateway, inStock=True, titleWord="two") == ["a"]
    await assert_invariants(gateway)


async def test_products_keep_extreme_prices_and_dates(gateway: GatewayClient, file: Path) -> None:
    largest = {"list": {"amount": 2**53 - 1}, "retail": {"amount": 9_007_199_254_740_991.0}}
    given = [
        product(sku="large", pricing=largest, issueDate="9999-12-31T23:59:59.999Z", details={"n": 2**63 - 1}),
        product(sku="small", issueDate="0001-01-01T00:00:00Z", details={"n": -(2**63)}),
    ]

    done = await put(gateway.db, "products", file, given)
    data = await gateway.data(
        "{ products { nodes { sku issueDate pricing { retail { amount } } ... on GeneralProduct { details } } } }"
    )

    assert done.counts == {"created": 2}
    shown = [
        (one["sku"], one["issueDate"], one["pricing"]["retail"]["amount"], one["details"])
        for one in data["products"]["nodes"]
    ]
    assert shown == [
        ("large", "9999-12-31T23:59:59.999Z", 2**53 - 1, {"n": 2**63 - 1}),
        ("small", "0001-01-01T00:00:00.000Z", 1000, {"n": -(2**63)}),
    ]
