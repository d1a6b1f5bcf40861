"""Pages of members: the followers of a member, the members of a circle, and those whom a member has blocked.

A page is one command: a walk along one index of `social.relations`, with the members looked up. Rows are in the order
of subjects, so a page costs the same wherever it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from portico.resolvers.documents import Collection, Database, Document, Projection, upgrade_read, with_version
from portico.resolvers.paging import Key, Listing, Page, Sort

from .members import MEMBERS
from .relations import RELATIONS

# By `_id`, the subject of the member.
_BY_SUBJECT = Sort(())
# The most pages in one command.
_PAGES_A_COMMAND = 100


@dataclass(frozen=True, eq=False)
class MemberListing(Listing):
    """The members `to` of the relations that match `filter`. `order` is the part of the index that they are walked by.

    The order names the last path of the index, too. Otherwise the planner could choose an index that has the relations
    of `of` in the same order, and would read all of them to find a few.
    """

    order: tuple[str, ...] = ("to",)
    direction: int = 1

    def reversed(self) -> MemberListing:
        return replace(super().reversed(), direction=-self.direction)


def followers_of(member: str) -> MemberListing:
    wanted = {"of": member, "follower": {"$exists": True}}
    return MemberListing(wanted, _BY_SUBJECT, named={"followers": member}, order=("to", "follower"))


def circle_of(member: str, name: str) -> MemberListing:
    return MemberListing({"of": member, "circles": name}, _BY_SUBJECT, named={"of": member, "circle": name})


def blocked_by(member: str) -> MemberListing:
    return MemberListing({"of": member, "blocks": True}, _BY_SUBJECT, named={"blocked": member}, order=("blocks", "to"))


class MemberPage(Page):
    """A page of members, whose positions are those of their relations."""

    __slots__ = ()

    async def rows_before(self, key: Key, limit: int, _projection: Projection) -> list[Document]:
        assert isinstance(self.listing, MemberListing)
        before = {**self.listing.filter, "to": {"$lte": key[0]}}
        order = [(path, -1) for path in self.listing.order]
        found = self.collection.find(before, {"_id": 0, "to": 1}, sort=order, limit=limit, batch_size=limit + 1)
        # The rule of members reads only their subjects.
        return [{"_id": relation["to"]} for relation in await found.to_list()]


def no_page(db: Database, listing: MemberListing) -> Page:
    """Returns an empty page, without a read."""
    return MemberPage(listing, db[RELATIONS.name], [], has_next=False)


async def find_pages(
    db: Database, listings: Sequence[MemberListing], *, first: int, after: Key | None, projection: Projection | None
) -> list[Page]:
    """Returns a page of each listing, up to a hundred by one command. Leaves out subjects that are no members."""
    pages: list[Page] = []
    relations = db[RELATIONS.name]
    for start in range(0, len(listings), _PAGES_A_COMMAND):
        some = listings[start : start + _PAGES_A_COMMAND]
        rows = await _rows(relations, some, first + 1, after, projection)
        pages += [_page(relations, listing, found, first, after) for listing, found in zip(some, rows, strict=True)]
    for page in pages:
        page.documents = await upgrade_read(db, MEMBERS, page.documents, projection)
    return pages


async def _rows(
    relations: Collection,
    listings: Sequence[MemberListing],
    limit: int,
    after: Key | None,
    projection: Projection | None,
) -> list[list[Document]]:
    """Returns the rows of each listing: {to, member}, without `member` if the subject is no member."""
    parts = [_part(listing, number, limit, after, projection) for number, listing in enumerate(listings)]
    pipeline = parts[0] + [{"$unionWith": {"coll": relations.name, "pipeline": part}} for part in parts[1:]]
    cursor = await relations.aggregate(pipeline, batchSize=len(listings) * limit + 1)
    found: list[list[Document]] = [[] for _ in listings]
    for row in await cursor.to_list():
        found[row["part"]].append(row)
    return found


def _part(
    listing: MemberListing, number: int, limit: int, after: Key | None, projection: Projection | None
) -> list[Document]:
    beyond = "$gt" if listing.direction > 0 else "$lt"
    behind = {} if after is None else {"to": {beyond: after[0]}}
    wanted = with_version(projection)
    members: Document = {"from": MEMBERS.name, "localField": "to", "foreignField": "_id", "as": "member"}
    if wanted is not None:
        members["pipeline"] = [{"$project": wanted}]
    return [
        {"$match": {**listing.filter, **behind}},
        {"$sort": dict.fromkeys(listing.order, listing.direction)},
        {"$limit": limit},
        {"$project": {"to": 1}},
        {"$lookup": members},
        {"$project": {"_id": 0, "to": 1, "part": {"$literal": number}, "member": {"$first": "$member"}}},
    ]


def _page(relations: Collection, listing: MemberListing, rows: list[Document], first: int, after: Key | None) -> Page:
    shown = rows[:first]
    has_next = len(rows) > first
    documents = [row["member"] for row in shown if "member" in row]
    end = (shown[-1]["to"],) if has_next and "member" not in shown[-1] else None
    return MemberPage(listing, relations, documents, has_next, after, end)
