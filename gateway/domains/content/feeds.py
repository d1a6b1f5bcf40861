"""`/feeds`: serves the latest entries of a blog, as Atom and as RSS, e.g. `/feeds/blog.atom`.

A feed contains what readers see, for all callers. Its entity tag is computed from the nodes without their texts.
Therefore, a conditional request for an unchanged feed reads no texts and renders nothing. Rendered feeds are cached.

A feed has no `Last-Modified`. If an entry is withdrawn, deleted, or inserted among older ones, the feed changes but the
latest date may not. A conditional request by date would then wrongly get "not modified".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import orjson
from feedgenerator import Atom1Feed, Rss201rev2Feed, SyndicationFeed
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from portico.gateway.http.requests import Refused
from portico.gateway.pages.files import Files
from portico.gateway.pages.ranges import precondition_status
from portico.gateway.state import State
from portico.resolvers.content import nodes as content
from portico.resolvers.content.nodes import NodeDocument
from portico.resolvers.content.settings import ContentSettings
from portico.resolvers.documents import Database
from portico.resolvers.lru import Lru
from portico.schema.markdown import page_html
from portico.schema.rendering import in_thread

ROUTE = "/feeds/{path:path}"
ENTRIES = 20
# Seconds for which clients can use a feed without asking again.
_FRESH = 60
_KEPT = 32
_MAX_KEPT_BYTES = 1_000_000
# Increment this if the rendering of the same nodes changes.
_FORM = "1"
_HOST = re.compile(r"[\w.-]+(?::\d{1,5})?|\[[0-9a-fA-F:.]+\](?::\d{1,5})?", re.ASCII)
# Characters that XML 1.0 does not allow.
_NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SHOWN = {"type": 1, "slug": 1, "title": 1, "author": 1, "tags": 1, "nonce": 1, "updated": 1, "detail.publish_on": 1}
_SAFE = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


class _DatedFeed(SyndicationFeed):
    """A feed with a given date of its last change, which it also has without entries."""

    def latest_post_date(self) -> datetime:
        changed: datetime = self.feed["changed"]
        return changed


class _Atom(_DatedFeed, Atom1Feed):
    pass


class _Rss(_DatedFeed, Rss201rev2Feed):
    pass


_FORMATS: dict[str, type[_DatedFeed]] = {"atom": _Atom, "rss": _Rss}


@dataclass(frozen=True)
class _Feed:
    """The data of a feed. `site` is the URL of the site, `url` that of the feed."""

    format: str
    site: str
    url: str
    path: str
    blog: NodeDocument
    entries: list[NodeDocument]

    @property
    def changed(self) -> datetime:
        """When the feed has changed, UTC, without a zone. Does not count entries that are no longer in it."""
        dates: list[datetime] = [self.blog["updated"], *(_changed(entry) for entry in self.entries)]
        return max(dates)

    @property
    def tag(self) -> str:
        facts = [_FORM, self.format, self.site, self.url, self.path, self.blog["title"], self.blog["updated"]]
        facts += [[str(entry["_id"]), entry["nonce"], entry["updated"], entry["tags"]] for entry in self.entries]
        return f'"{hashlib.blake2b(orjson.dumps(facts), digest_size=16).hexdigest()}"'


def _changed(entry: NodeDocument) -> datetime:
    return max(entry["updated"], _published(entry))


def _published(entry: NodeDocument) -> datetime:
    published = entry["detail"]["publish_on"]
    assert published is not None
    return published


class Feeds(Files):
    """The ASGI application of `/feeds`."""

    def __init__(self, state: Callable[[], State]) -> None:
        super().__init__(state)
        self._made: Lru[str, bytes] = Lru(_KEPT)

    async def respond(self, request: Request, state: State) -> Response:
        feed = await _find_feed(state, request)
        tag = feed.tag
        headers = {**_SAFE, "Cache-Control": f"public, max-age={_FRESH}", "ETag": tag}
        status = precondition_status(request.headers, request.method, tag=tag, modified=None)
        if status is not None:
            return Response(status_code=status, headers=headers)
        media_type = _FORMATS[feed.format].content_type
        return Response(await self._body(state.reading, feed), headers=headers, media_type=media_type)

    async def _body(self, db: Database, feed: _Feed) -> bytes:
        body = self._made.get(feed.tag)
        if body is None:
            keys = [entry["_id"] for entry in feed.entries]
            found = await content.find_by_ids(db, keys, {"nonce": 1, "detail.text": 1}) if keys else {}
            texts = {key: node["detail"]["text"] for key, node in found.items()}
            body = await in_thread(partial(_render, feed, texts))
            # If an entry was edited just now, its text does not match the tag, and the feed is not cached.
            nonces = {key: node["nonce"] for key, node in found.items()}
            is_as_named = [nonces.get(entry["_id"]) == entry["nonce"] for entry in feed.entries]
            if len(body) <= _MAX_KEPT_BYTES and all(is_as_named):
                self._made.put(feed.tag, body)
        return body


async def _find_feed(state: State, request: Request) -> _Feed:
    """Finds the feed of the request. Raises Refused (404) if there is no such blog or format."""
    name, _, format_ = f"/{request.path_params['path']}".rpartition(".")
    path = content.parse_path(name)
    if path is not None and format_ in _FORMATS:
        blog = (await content.find_by_paths(state.reading, [path])).get(path)
        if blog is not None and blog["detail"].get("kind") == content.BLOG:
            listing = content.entries_of(blog["_id"], state.clock.now())
            (page,) = await content.find_content_pages(
                state.reading, [listing], first=ENTRIES, after=None, projection=_SHOWN
            )
            own = _base(request)
            site = (state.settings.of(ContentSettings).site_url or own).rstrip("/")
            return _Feed(format_, site, f"{own}/feeds{name}.{format_}", name, blog, page.documents)
    raise Refused(
        404, "NOT_FOUND", "There is no such feed. For a blog at `/blog`, use `/feeds/blog.atom` or `/feeds/blog.rss`."
    )


def _base(request: Request) -> str:
    """Returns the URL of the gateway, from the request."""
    host = Headers(scope=request.scope).get("host", "")
    return f"{request.url.scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"


def _render(feed: _Feed, texts: Mapping[Any, str]) -> bytes:
    page = feed.site + feed.path
    written = _FORMATS[feed.format](
        title=_xml(feed.blog["title"]),
        link=page,
        description=_xml(feed.blog["title"]),
        feed_url=feed.url,
        feed_guid=_guid(feed.blog),
        changed=feed.changed.replace(tzinfo=UTC),
    )
    for entry in feed.entries:
        # An entry that was deleted just now has no text any more.
        if entry["_id"] in texts:
            _add(written, entry, f"{page}/{entry['slug']}", texts[entry["_id"]])
    text: str = written.writeString("utf-8")
    return text.encode()


def _add(written: _DatedFeed, entry: NodeDocument, link: str, text: str) -> None:
    html = _xml(page_html(text, base=link))
    is_atom = isinstance(written, Atom1Feed)
    written.add_item(
        title=_xml(entry["title"]),
        link=link,
        description=None if is_atom else html,
        content=html if is_atom else None,
        author_name=_xml(entry["author"]["name"]),
        pubdate=_published(entry).replace(tzinfo=UTC),
        updateddate=_changed(entry).replace(tzinfo=UTC),
        unique_id=_guid(entry),
        unique_id_is_permalink=False,
        categories=[_xml(tag) for tag in entry["tags"]],
    )


def _guid(node: NodeDocument) -> str:
    """Returns an id that does not change with the node's path or title."""
    return f"urn:uuid:{uuid5(NAMESPACE_OID, str(node['_id']))}"


def _xml(text: str) -> str:
    return _NO_XML.sub("", text)
