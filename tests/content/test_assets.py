"""`/assets`: whole and partial downloads of photos, for callers who may see them."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portico.resolvers.content import assets
from tests.content.support.photos import PicturesHere, create_gallery, create_photo, noise_of, result, use_pictures
from tests.content.support.site import own
from tests.support.harness import GatewayClient, SettableClock
from tests.support.ids import key_in

DATA = noise_of(40, 40)
FROM = {"range": "bytes=1000-1999"}


@pytest.fixture(scope="module")
def gateway(shared: GatewayClient) -> Iterator[GatewayClient]:
    """Yield a gateway that stores photos in chunks of 1,000 bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assets, "CHUNK_BYTES", 1_000)
        use_pictures(shared, PicturesHere())
        yield shared


@pytest.fixture(scope="module")
async def photo(gateway: GatewayClient) -> dict[str, Any]:
    return await create_photo(gateway, await create_gallery(gateway), DATA, slug="noise")


async def get(gateway: GatewayClient, photo: dict[str, Any], **headers: str) -> httpx.Response:
    return await gateway.http.get(
        photo["url"], headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


async def test_a_photo_is_served_with_all_headers(gateway: GatewayClient, photo: dict[str, Any]) -> None:
    response = await gateway.http.get(photo["url"])

    assert response.content == DATA
    assert dict(response.headers) == {
        "content-type": "image/png",
        "content-length": str(len(DATA)),
        "content-disposition": 'inline; filename="noise.png"',
        "etag": f'"{photo["checksum"]}"',
        "last-modified": response.headers["last-modified"],
        "cache-control": "public, max-age=31536000, immutable",
        "accept-ranges": "bytes",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
        "cross-origin-resource-policy": "cross-origin",
    }
    assert parsedate_to_datetime(response.headers["last-modified"]).tzinfo is not None


async def test_a_head_request_returns_the_same_headers_without_the_body(
    gateway: GatewayClient, photo: dict[str, Any]
) -> None:
    whole, head = await gateway.http.get(photo["url"]), await gateway.http.head(photo["url"], headers=FROM)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == whole.headers


async def test_conditional_requests_are_answered(gateway: GatewayClient, photo: dict[str, Any]) -> None:
    tag, modified = f'"{photo["checksum"]}"', (await gateway.http.get(photo["url"])).headers["last-modified"]

    by_tag = await get(gateway, photo, if_none_match=tag)
    by_time = await get(gateway, photo, if_modified_since=modified)
    other = await get(gateway, photo, if_none_match='"other"')
    failed = await get(gateway, photo, if_match='"other"')

    for response in (by_tag, by_time):
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["etag"] == tag
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (other.status_code, other.content) == (200, DATA)
    assert (failed.status_code, failed.content) == (412, b"")


@pytest.mark.parametrize("date", ["Fri, 31 Dec 9999 23:59:59 -2300", "Sat, 99999999999999999999 Jan 2020 00:00:00 GMT"])
async def test_an_impossible_date_is_ignored(gateway: GatewayClient, photo: dict[str, Any], date: str) -> None:
    for headers in ({"if_modified_since": date}, {"if_unmodified_since": date}, {"if_range": date, **FROM}):
        response = await get(gateway, photo, **headers)
        assert (response.status_code, response.content) == (200, DATA), headers


async def test_a_range_returns_that_part_of_the_photo(gateway: GatewayClient, photo: dict[str, Any]) -> None:
    gateway.commands.clear()
    response = await get(gateway, photo, **FROM)

    assert response.status_code == 206
    assert response.content == DATA[1_000:2_000]
    assert response.headers["content-range"] == f"bytes 1000-1999/{len(DATA)}"
    assert response.headers["content-length"] == "1000"
    assert gateway.commands.names() == ["find cms.nodes", "find cms.assets.files", "find cms.assets.chunks"]
    assert gateway.commands.sent[-1]["filter"]["n"] == {"$gte": 1, "$lt": 2}


async def test_a_range_of_a_changed_photo_returns_the_whole_photo(
    gateway: GatewayClient, photo: dict[str, Any]
) -> None:
    same = await get(gateway, photo, **FROM, if_range=f'"{photo["checksum"]}"')
    other = await get(gateway, photo, **FROM, if_range='"other"')

    assert (same.status_code, same.content) == (206, DATA[1_000:2_000])
    assert (other.status_code, other.content) == (200, DATA)


async def test_a_range_beyond_the_end_is_refused_with_the_size(gateway: GatewayClient, photo: dict[str, Any]) -> None:
    response = await get(gateway, photo, range="bytes=1000000-")

    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{len(DATA)}"
    assert response.json()["errors"][0]["extensions"] == {"code": "RANGE_NOT_SATISFIABLE"}


def ranges_in(response: httpx.Response) -> list[str]:
    """Return the content ranges of the parts of a `multipart/byteranges` response, as read by the standard library."""
    text = b"Content-Type: " + response.headers["content-type"].encode() + b"\r\n\r\n" + response.content
    parts = email.message_from_bytes(text, policy=email.policy.HTTP).iter_parts()
    found = [(part.get_content_type(), part["content-range"]) for part in parts]
    assert {kind for kind, _ in found} == {"image/png"}
    return [str(content_range) for _, content_range in found]


async def test_several_ranges_are_returned_as_parts(gateway: GatewayClient, photo: dict[str, Any]) -> None:
    response = await get(gateway, photo, range="bytes=0-9,2500-2519,-5")

    size = len(DATA)
    assert response.status_code == 206
    assert int(response.headers["content-length"]) == len(response.content)
    assert ranges_in(response) == [
        f"bytes 0-9/{size}",
        f"bytes 2500-2519/{size}",
        f"bytes {size - 5}-{size - 1}/{size}",
    ]
    for wanted in (DATA[:10], DATA[2_500:2_520], DATA[-5:]):
        assert b"\r\n\r\n" + wanted + b"\r\n--" in response.content


ENDS = st.one_of(st.integers(0, len(DATA) + 2_000), st.sampled_from([0, 999, 1_000, 1_001, len(DATA) - 1, len(DATA)]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(first=ENDS, last=ENDS, is_suffix=st.booleans())
async def test_any_range_equals_the_slice_of_the_bytes(
    gateway: GatewayClient, photo: dict[str, Any], first: int, last: int, is_suffix: bool
) -> None:
    asked = f"bytes=-{last}" if is_suffix else f"bytes={first}-{last}"
    expected = DATA[max(len(DATA) - last, 0) :] if is_suffix else DATA[first : last + 1]

    response = await get(gateway, photo, range=asked)

    if not is_suffix and last < first:
        assert (response.status_code, response.content) == (200, DATA)
    elif not expected:
        assert response.status_code == 416
    else:
        assert (response.status_code, response.content) == (206, expected)
        assert int(response.headers["content-length"]) == len(expected)


@pytest.mark.parametrize(
    "path",
    [
        "/assets",
        "/assets/",
        "/assets/x/y/z",
        "/assets/{id}",
        "/assets/{id}/{checksum}",
        "/assets/{id}/{checksum}/",
        "/assets/{id}/{other}/noise.png",
        "/assets/{id}/{checksum}/../../../etc/passwd",
        "/assets/{id}/{checksum}/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/{id}/{checksum}/%2e%2e/%2e%2e/x",
        "/assets/..%2f..%2fetc/passwd/x",
        "/assets/{id}%00/{checksum}/x",
        "/assets/{id}/{checksum}%00/x",
        "/assets/{id}'/{checksum}/x",
        "/assets/{upper}/{checksum}/noise.png",
        "/assets/{none}/{checksum}/noise.png",
        "/assets/{gallery}/{checksum}/noise.png",
        "/assets/%7B%22$gt%22:%22%22%7D/{checksum}/x",
    ],
)
async def test_other_paths_do_not_lead_to_a_photo(gateway: GatewayClient, photo: dict[str, Any], path: str) -> None:
    key = str(key_in("ContentNode", photo["id"]))
    node = await gateway.stored("cms.nodes", {"_id": key_in("ContentNode", photo["id"])})
    chosen = path.format(
        id=key,
        upper=key.upper() + "A",
        none="0" * 24,
        gallery=node["parent"],
        checksum=photo["checksum"],
        other="0" * 64,
    )

    response = await gateway.http.get(httpx.URL(scheme="http", host="gateway", raw_path=chosen.encode()))

    assert response.status_code in {404, 307}
    assert b"PNG" not in response.content


async def test_the_file_name_in_the_path_has_no_effect(gateway: GatewayClient, photo: dict[str, Any]) -> None:
    response = await gateway.http.get(photo["url"].replace("noise.png", "evil.html"))

    assert response.headers["content-type"] == "image/png"
    assert response.headers["content-disposition"] == 'inline; filename="noise.png"'


async def test_assets_are_read_only(gateway: GatewayClient, photo: dict[str, Any]) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        response = await gateway.http.request(method, photo["url"])

        assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("width", ["", "0", "-1", "1e3", "abc", "²", "100001", "9" * 50])
async def test_an_invalid_width_is_refused(gateway: GatewayClient, photo: dict[str, Any], width: str) -> None:
    response = await gateway.http.get(photo["url"], params={"width": width})

    assert response.status_code == 400
    assert response.headers["cache-control"] == "no-store"


async def test_only_callers_who_see_a_photo_get_its_bytes(gateway: GatewayClient) -> None:
    hidden = await create_photo(gateway, await create_gallery(gateway), DATA)
    node = {"_id": key_in("ContentNode", hidden["id"])}

    # Readers get no bytes of a node that they do not see, whatever the reason.
    await gateway.db["cms.nodes"].update_one(node, {"$set": {"visible_from": None}})
    unseen = await gateway.http.get(hidden["url"])
    await gateway.db["cms.nodes"].update_one(node, {"$set": {"visible_from": SettableClock().now()}})
    seen = await gateway.http.get(hidden["url"])

    assert (unseen.status_code, seen.status_code) == (404, 200)


async def test_a_url_of_a_photo_never_returns_other_bytes(gateway: GatewayClient) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), DATA)
    replaced = await result(gateway, "replacePhoto", own(photo), noise_of(30, 30))

    old = await gateway.http.get(photo["url"], headers={"if-none-match": f'"{photo["checksum"]}"'})
    new = await gateway.http.get(replaced["photo"]["url"])

    assert old.status_code == 404
    assert new.content == noise_of(30, 30)
