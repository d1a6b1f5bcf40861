"""`PORTICO_DOMAINS` selects the schema, collections, jobs, importers, checks and demo data of some domains."""

from __future__ import annotations

import functools
import json
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import httpx
import pytest
from graphql import GraphQLObjectType, build_schema

from portico.gateway.domains import BUILT_IN, load
from portico.gateway.settings import Settings
from tests.support.harness import IS_SOAK
from tests.support.kits import kits
from tests.support.processes import environment, portico, served

# What only each domain adds: a root field, and a type.
OF = {name: kit.adds for name, kit in kits().items() if name in BUILT_IN}
# The domains without which a domain is not served.
NEEDS = {domain.name: set(domain.needs) for domain in load(BUILT_IN).all}


@functools.cache
def sdl(names: str) -> str:
    """The schema of a process that has not built the schema of all domains."""
    done = portico("schema", env=environment(PORTICO_DOMAINS=names), is_new=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("names", ["catalog", "catalog,accounts,shop", " comments , content ", "accounts"])
def test_the_schema_has_only_what_the_enabled_domains_add(names: str) -> None:
    served_domains = {name.strip() for name in names.split(",")}

    text = sdl(names)

    types = build_schema(text).type_map
    for name, (field, type_name) in OF.items():
        assert (type_name in types) is (name in served_domains)
        assert bool(re.search(rf"^  {field}(\(|:)", text, re.MULTILINE)) is (name in served_domains)


def fields_of_an_album(names: str) -> set[str]:
    found = build_schema(sdl(names)).type_map["AudioAlbum"]
    assert isinstance(found, GraphQLObjectType)
    return set(found.fields)


def test_the_shop_adds_a_stock_to_products_and_comments_add_a_discussion() -> None:
    alone = fields_of_an_album("catalog")

    assert {"stock", "discussion"}.isdisjoint(alone)
    assert fields_of_an_album("catalog,comments") - alone == {"discussion"}
    assert fields_of_an_album("catalog,accounts,shop") - alone == {"stock"}


SCHEMA_OF_EACH = """
import json, sys
from portico.gateway.domains import load, load_once, schema_of
from portico.resolvers.served import InvalidDomains
from graphql import validate_schema
for names in json.load(sys.stdin):
    try:
        domains = load(names)
    except InvalidDomains as error:
        print("refused", *names, "|", error)
        continue
    assert validate_schema(schema_of(domains)._schema) == []
    print("served", *names)
    load_once.cache_clear()
    schema_of.cache_clear()
"""
# How many subsets of at least two domains are tried, and how many of those that can be served.
SAMPLE = 4


def orders_of_subsets() -> list[list[str]]:
    """All domains, each one alone, and in any order some of the others, which differ in each run.

    A soak tries every subset.
    """
    subsets = [names for count in range(1, len(BUILT_IN) + 1) for names in combinations(BUILT_IN, count)]
    always = [names for names in subsets if IS_SOAK or len(names) in {1, len(BUILT_IN)}]
    others = [names for names in subsets if IS_SOAK or names not in always]
    complete = [names for names in others if not is_incomplete(names)]
    sampled = others if IS_SOAK else random.sample(others, SAMPLE) + random.sample(complete, SAMPLE)
    orders = [*always, *(names[::-1] for names in always), *(random.sample(names, len(names)) for names in sampled)]
    return [list(names) for names in dict.fromkeys(map(tuple, orders))]


def test_every_complete_subset_is_served_in_any_order() -> None:
    orders = orders_of_subsets()

    done = subprocess.run(
        [sys.executable, "-c", SCHEMA_OF_EACH],
        input=json.dumps(orders),
        capture_output=True,
        text=True,
        timeout=3_600 if IS_SOAK else 120,
        check=True,
        env=environment(),
    )

    outcomes = [line.partition(" |")[0].split() for line in done.stdout.splitlines()]
    expected = [["refused" if is_incomplete(names) else "served", *names] for names in orders]
    assert outcomes == expected


def is_incomplete(names: Sequence[str]) -> bool:
    return any(not NEEDS[name] <= set(names) for name in names)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("names", "line"),
    [
        ("catalog,shop", "the domain shop needs accounts, which is not served."),
        ("sho", f"there is no domain 'sho'. The domains are: {', '.join(BUILT_IN)}."),
        (" , ", "PORTICO_DOMAINS names no domain. Name one or more, separated by commas, or unset it."),
    ],
)
@pytest.mark.parametrize("command", ["schema", "serve", "worker", "doctor"])
def test_domains_that_cannot_be_served_end_the_start_with_one_line_of_error(
    names: str, line: str, command: str
) -> None:
    done = portico(command, env=environment(PORTICO_DOMAINS=names))

    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"portico: {line}\n")


def test_everything_else_follows_from_the_enabled_domains(settings: Settings, tmp_path: Path) -> None:
    env = environment(settings, PORTICO_DOMAINS="catalog,comments")

    with served(tmp_path / "demo", env, command="demo") as gateway:
        shown = gateway.ask("{ products(first: 1) { nodes { sku discussion { commentCount } } } }")
        refused = gateway.ask("{ cart(id: 1) { id } }")
        tabs = httpx.get(f"{gateway.url}/graphiql/config.json").json()["tabs"]
        feed = httpx.get(f"{gateway.url}/feeds/blog.atom")
        printed = gateway.process.output
    checked = portico("doctor", env=env)
    importers = portico("import", "--help", env=env)
    unknown = portico("import", "posts", "x.jsonl", env=env)
    indexes = portico("indexes", env=env)

    assert shown.json()["data"]["products"]["nodes"][0]["sku"]
    assert "Cannot query field 'cart'" in refused.json()["errors"][0]["message"]
    assert [tab["title"] for tab in tabs] == ["Catalog", "Comments", "Live"]
    assert feed.status_code == 404
    loaded = ["categories", "products", "images", "comments"]
    assert re.findall(r"^(\w+): ", printed, re.MULTILINE) == loaded
    invariants = load(["catalog", "comments"]).invariants
    assert (checked.returncode, len(checked.stdout.splitlines())) == (0, len(invariants))
    assert re.findall(r"^  (\w+) +Import", importers.stdout, re.MULTILINE) == loaded
    assert (unknown.returncode, "No such command 'posts'" in unknown.stderr) == (2, True)
    assert {"stock", "carts", "cms.nodes", "accounts"}.isdisjoint(re.findall(r"[\w.]+", indexes.stdout))


def test_a_product_can_be_deleted_without_the_other_domains(settings: Settings, tmp_path: Path) -> None:
    env = environment(settings, PORTICO_DOMAINS="catalog")
    token = portico("token", "--sub", "m", "--role", "MERCHANT", env=env).stdout.strip()
    create = """mutation { createProduct(input: {sku: "s", type: "Other", title: "T", pricing: {list: {amount: 2},
      retail: {amount: 1}}}) { ... on ProductPayload { product { id nonce } } } }"""
    delete = 'mutation {{ deleteProduct(input: {{id: "{id}", nonce: "{nonce}"}}) {{ __typename }} }}'

    with served(tmp_path / "gateway", env) as gateway:
        created = gateway.ask(create, token).json()["data"]["createProduct"]["product"]
        deleted = gateway.ask(delete.format(**created), token).json()
        left = gateway.ask('{ product(sku: "s") { sku } }').json()

    assert deleted == {"data": {"deleteProduct": {"__typename": "DeletedPayload"}}}
    assert left == {"data": {"product": None}}
