"""Creates a page and two entries of a blog."""

from __future__ import annotations

from portico.testing.kits import Known
from tests.content.support.site import create_entry, create_page, create_section
from tests.support.harness import GatewayClient


async def seed(gateway: GatewayClient, _known: Known) -> Known:
    """Creates a page and two entries in sections, with tags, and edits one text."""
    section = await create_section(gateway, slug="about")
    blog = await create_section(gateway, "BLOG", slug="blog")
    page = await create_page(gateway, parentId=section["id"], slug="us", tags=["news", "people"])
    entries = [await create_entry(gateway, blog, slug=f"entry-{number}", tags=["news"]) for number in range(2)]
    edit = {"id": page["id"], "nonce": page["nonce"], "text": "*Other*.\n"}
    assert (await gateway.result("editText", edit))["__typename"] == "ContentPayload"
    return {
        "id": [node["id"] for node in (section, blog, page, *entries)],
        "path": ["/about", "/about/us", "/blog", *(entry["path"] for entry in entries)],
        "tag": ["news", "people"],
    }
