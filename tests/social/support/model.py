"""A slow and obvious model of who sees what in the social network. It keeps everything in memory, and has no index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ModelPost:
    key: str
    author: str
    owner: str
    audience: str
    circles: list[str]
    # Who followed the author, and could see the post, when it was delivered.
    sent: set[str] = field(default_factory=set)
    comments: list[tuple[str, str]] = field(default_factory=list)
    is_deleted: bool = False


@dataclass
class Model:
    members: list[str]
    circles: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    blocks: set[tuple[str, str]] = field(default_factory=set)
    posts: list[ModelPost] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)

    def circles_with(self, owner: str, member: str) -> set[str]:
        return self.circles.setdefault((owner, member), set())

    def circles_of(self, owner: str) -> set[str]:
        return {name for (of, _), names in self.circles.items() if of == owner for name in names}

    def follows(self, one: str | None, other: str) -> bool:
        return one is not None and bool(self.circles_with(one, other))

    def followers(self, author: str) -> set[str]:
        return {member for member in self.members if self.follows(member, author)}

    def has_block(self, one: str | None, other: str) -> bool:
        return one is not None and ((one, other) in self.blocks or (other, one) in self.blocks)

    def is_in(self, viewer: str | None, post: ModelPost) -> bool:
        """Returns whether the viewer is in the audience of the post."""
        if post.audience == "PUBLIC":
            return True
        circles = set() if viewer is None else self.circles_with(post.author, viewer)
        return bool(circles if post.audience == "CIRCLES" else circles.intersection(post.circles))

    def sees(self, viewer: str | None, post: ModelPost) -> bool:
        if post.is_deleted:
            return False
        if viewer == post.author:
            return True
        if self.has_block(viewer, post.author) or self.has_block(viewer, post.owner):
            return False
        return viewer == post.owner or self.is_in(viewer, post)

    def newest(self, viewer: str | None) -> list[ModelPost]:
        return [post for post in reversed(self.posts) if self.sees(viewer, post)]

    def news_feed(self, viewer: str) -> list[ModelPost]:
        return [
            post
            for post in self.newest(viewer)
            if post.author == viewer
            or (
                self.follows(viewer, post.author)
                and self.is_in(viewer, post)
                and (viewer in post.sent or post.author in self.merged)
            )
        ]

    def timeline(self, viewer: str | None) -> list[ModelPost]:
        return [post for post in self.newest(viewer) if post.audience == "PUBLIC"]

    def incoming(self, viewer: str) -> list[ModelPost]:
        return [post for post in self.newest(viewer) if post.owner == viewer != post.author]

    def wall(self, viewer: str | None, member: str) -> list[ModelPost] | None:
        """Returns the posts on a wall; None if the member does not exist for the viewer."""
        if (member, viewer) in self.blocks:
            return None
        on_wall = [post for post in self.newest(viewer) if member in {post.author, post.owner}]
        if viewer != member:
            return on_wall
        return [post for post in on_wall if post.author == viewer or self.follows(viewer, post.author)]

    def comments(self, viewer: str | None, post: ModelPost) -> list[dict[str, str]]:
        return [{"text": text} for author, text in post.comments if not self.has_block(viewer, author)]

    def shown(self, viewer: str | None, post: ModelPost) -> dict[str, Any]:
        """Returns the post as the viewer sees it, in the public schema."""
        comments = self.comments(viewer, post)
        return {
            "id": post.key,
            "circles": post.circles if viewer == post.author else None,
            "commentCount": len(comments),
            "latestComments": comments[-3:],
        }
