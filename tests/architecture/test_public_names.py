"""Built-in domains use shared machinery under the names that domains of other packages use.

What they use besides has a reason below. The list may only shrink: a name that no domain uses any more is an error.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

from portico import testing
from tests.support.public_api import FAMILIES, GROUPS, PUBLIC, is_public
from tests.support.rooms import MODULES, ROOT, domain_of

MOST = 83
# Names that no built-in domain uses: why packages need them.
FOR_PACKAGES = {
    "find_transfer": "the shop finds the transfers of its orders by their ids",
    "pay_out": "the shop gives money back by a transfer that names the order",
    "RollUp": "the built-in roll-ups work in batches",
    "Transfer": "a field of the schema; the built-in domains relate to the kind by its name",
}
# By module: why domains use it, and what.
EXCEPTIONS: dict[str, tuple[str, set[str]]] = {
    "gateway.demo.demo_token": ("the demo data belongs to its caller", {"MEMBERS", "SUBJECT"}),
    "gateway.demo.loading": ("the demo data is one operation", {"OPERATION"}),
    "gateway.http.requests": ("files that are not served", {"Refused"}),
    "gateway.http.streaming": ("rates count by address", {"address_of"}),
    "gateway.logs": ("logs of the own services", {"logger"}),
    "gateway.outages": ("logs of the own services", {"log_fault"}),
    "gateway.pages.files": ("content serves files", {"Files"}),
    "gateway.pages.ranges": (
        "content serves files",
        {"NotSatisfiable", "Span", "precondition_status", "requested_spans"},
    ),
    "gateway.pictures.checking": ("uploads of pictures", {"PictureProcesses"}),
    "gateway.pictures.picture_files": ("imports of pictures", {"PictureFile"}),
    "gateway.settings": (
        "checks settings with those of the gateway",
        {"PREFIX", "Settings", "SettingsError", "kept_secret"},
    ),
    "gateway.state": ("the own routes and middleware", {"State"}),
    "loaders.batching": ("loaders that other domains get from `Kind.of`", {"BatchRead"}),
    "loaders.declaring": (
        "loaders that other domains get from `Kind.of` and `Paged.of`",
        {"PageLoader", "batched", "by_key", "each", "in_order"},
    ),
    "resolvers.answer_bounds": ("a list that is built from many documents", {"hold"}),
    "resolvers.change_times": ("a stream whose position is stored", {"is_ahead"}),
    "resolvers.changes": ("a stream whose position is stored", {"AWAIT_MS", "accepted", "is_lost", "open_stream"}),
    "resolvers.documents": (
        "documents of former versions, and reads in batches",
        {
            "Author",
            "COMPARED",
            "Collection",
            "DocumentId",
            "LENIENT",
            "Projection",
            "UPGRADE_FAILED",
            "in_batches",
            "projection_name",
            "upgrade_read",
            "with_version",
        },
    ),
    "resolvers.elections": ("retries of the own combined writes", {"met_election"}),
    "resolvers.errors": (
        "of HTTP or of several built-in domains",
        {"OperationKeyReused", "OperationRefused", "SlugTaken", "UnacceptableFile", "error_type", "one_of"},
    ),
    "resolvers.hints": ("reads that name their index", {"with_hint"}),
    "resolvers.import_outcomes": ("imports in bulk", {"refused_row", "rejected_rows"}),
    "resolvers.lru": ("caches of services", {"Lru"}),
    "resolvers.keyed": ("pages of a loader", {"find_pages"}),
    "resolvers.money": ("money in inputs of the own forms", {"MAX_AMOUNT", "require_amount", "require_currency"}),
    "resolvers.notifying": ("what all domains declare", {"Notifications", "OTHER"}),
    "resolvers.paging": (
        "pages whose rows come from several reads",
        {"Key", "MAX_WALKS", "count_listings", "find_page", "find_pages", "page_size"},
    ),
    "resolvers.pictures": (
        "photos, and images of products",
        {
            "Picture",
            "PictureBroken",
            "Pictures",
            "SIGNATURE_BYTES",
            "SUFFIXES",
            "THUMBNAIL_SUFFIX",
            "THUMBNAIL_TYPE",
            "UNKNOWN_TYPE",
            "WIDTHS",
            "width_for",
        },
    ),
    "resolvers.problems": ("repairs of the own invariants", {"Repair", "mend_now", "problems_with"}),
    "resolvers.roll_ups": ("a roll-up in batches", {"REVISION"}),
    "resolvers.server_time": ("claims that expire", {"server_time"}),
    "resolvers.snapshots": ("invariants over several collections", {"read_at_one_time"}),
    "resolvers.tasks": ("services that end with the gateway, and what ends although it stops", {"complete", "end"}),
    "resolvers.texts": ("limits of the own forms", {"MAX_AUTHOR", "MAX_SLUG"}),
    "resolvers.urls": ("links in the own forms", {"require_web_url"}),
    "resolvers.typed_text": (
        "how typed words are compared with those of titles and names",
        {"MAX_TEXT", "MAX_TYPED", "is_typo", "matches", "near", "plain", "shortened", "typed_words"},
    ),
    "schema.suggesting": ("what the built-in kinds suggest", {"Suggested"}),
    "resolvers.waiting": ("gives its turn to others", {"waiting"}),
    "resolvers.writes.combining": (
        "calls that are combined: hits, impressions, turns, deliveries",
        {"Combiner", "Waiting", "take_first"},
    ),
    "resolvers.writes.idempotency": (
        "operations of several documents, and what they note",
        {"LEASE", "find_created", "note", "notes", "renew"},
    ),
    "resolvers.writes.intents": (
        "writes with a record of intent: categories, products, photos",
        {"Intent", "announce", "announced", "sweep_left_behind", "withdraw"},
    ),
    "resolvers.writes.retries": ("waits for the marks of others", {"pause", "settling"}),
    "resolvers.parts": ("what a live query compares before it runs", {"as_part"}),
    "resolvers.together": ("commands at the same time", {"Begun", "both", "every"}),
    "resolvers.writes.settler": ("how calls are answered that settle", {"AT_ONCE", "Answering", "Settler"}),
    "resolvers.writes.deciding": (
        "records that decide, where `Noted.settle_once` is not enough",
        {"DecidedKey", "KeyDecisions", "insert", "look_at"},
    ),
    "resolvers.writes.settlements": (
        "the steps of a settlement, where `Noted.settle_once` is not enough",
        {
            "Attempt",
            "Part",
            "conclude",
            "confirm",
            "decide",
            "prepare",
            "prepare_one",
            "settle_decided",
            "undo",
            "was_decided",
        },
    ),
    "resolvers.writes.sweeps": (
        "jobs over damaged documents",
        {"DAMAGED", "SweepFailed", "describe_damage", "is_outage", "require"},
    ),
    "resolvers.writes.waiting_once": ("writes of two steps that wait for a majority once", {"Notes"}),
    "schema.connections": (
        "lists whose rows come from several reads",
        {"Edge", "edge_of", "extent_of", "selected_below"},
    ),
    "schema.context": ("graphql-core's info, for selections", {"core"}),
    "schema.errors": ("of several built-in domains", {"camel_case", "shown_error"}),
    "schema.fields": (
        "fields of many shapes; other domains use `strawberry.Parent`",
        {"MAX_COSTLY", "Source", "as_document", "composed", "kept_privately"},
    ),
    "schema.files": ("uploads", {"Upload"}),
    "schema.inputs": ("inputs of the analytics", {"Span"}),
    "schema.kinds": ("ids of several kinds", {"KindDocument", "decode_id", "split_id"}),
    "schema.markdown": ("texts in Markdown", {"comment_html", "first_picture", "page_html", "plain_text"}),
    "schema.fingerprints": ("inputs that must not be stored", {"secret_by"}),
    "schema.nodes": (
        "rules of visibility over several kinds; other domains use `load_one` and `find_visible`",
        {"is_visible", "load", "loader_of", "projection_of", "require", "shown"},
    ),
    "schema.parts": ("ids of the items of lists", {"digest_of", "part_id"}),
    "schema.rendering": ("texts in Markdown", {"in_thread", "rendered"}),
    "schema.scalars": ("scalars of the own fields", {"JSON", "check_big_int", "format_instant", "parse_instant"}),
    "schema.selections": ("fields that read by their selection", {"cached", "selection_of"}),
    "schema.sharing": ("figures that requests share", {"shared"}),
    "schema.subscriptions": ("subscriptions that show states, or check more than visibility", {"read_shared"}),
    "schema.viewer": ("payloads that lead to the viewer", {"ShowsViewer"}),
}


def shared_names(module: str) -> Iterator[tuple[str, str]]:
    """The names of shared modules that a module uses, each with its module."""
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level or not str(node.module).startswith("portico."):
            continue
        base = str(node.module).removeprefix("portico.")
        for alias in node.names:
            if f"{base}.{alias.name}" in MODULES:
                below = f"{base}.{alias.name}"
                yield from ((below, name) for name in attributes_of(tree, alias.asname or alias.name))
            else:
                yield base, alias.name


def attributes_of(tree: ast.AST, variable: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == variable
    }


def used_of_shared_modules() -> dict[str, set[str]]:
    """What the built-in domains use of each shared module, besides names that are public under the same name."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        if domain_of(module):
            for base, name in shared_names(module):
                value = getattr(importlib.import_module(f"portico.{base}"), name)
                if not domain_of(base) and not is_public(name, value):
                    found.setdefault(base, set()).add(name)
    return found


def test_built_in_domains_use_public_names_or_have_a_reason() -> None:
    assert used_of_shared_modules() == {module: names for module, (_, names) in EXCEPTIONS.items()}


def test_every_public_name_has_a_user() -> None:
    """A built-in domain, or, with a reason, only the example or a domain of the tests."""
    pairs = {pair for module in MODULES if domain_of(module) for pair in shared_names(module)}
    used = {name for _, name in pairs} | {module.rpartition(".")[2] for module, _ in pairs}
    members = {name for family in FAMILIES for name in family.__all__}
    assert {name for name in {*PUBLIC, *members} if name not in used} == set(FOR_PACKAGES)
    folders = (ROOT / "examples", ROOT / "tests" / "extending")
    texts = [
        path.read_text() for folder in folders for path in folder.rglob("*.py") if "last_release" not in path.parts
    ]
    for tree in map(ast.parse, texts):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("portico"):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)

    assert set(PUBLIC) - used == set()


def test_a_public_name_is_in_one_module() -> None:
    names = [name for group in (*GROUPS, testing) for name in group.__all__]

    assert sorted({name for name in names if names.count(name) > 1}) == []
    assert len(PUBLIC) <= MOST
