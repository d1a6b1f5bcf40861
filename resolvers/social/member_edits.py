"""Writes of members: joining, and changes of the profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.texts import require_line, require_text
from portico.resolvers.urls import require_web_url
from portico.resolvers.writes.marks import is_repeatable, mark_applied, not_applied, trim_marks, was_applied

from . import member_rates, members
from .members import MEMBERS, MemberDocument
from .names import searched

MAX_NAME = 80
MAX_ABOUT = 10_000
MAX_LOCATION = 200
MAX_INTERESTS = 50
MAX_INTEREST = 100
FIRST_BIRTH_YEAR = 1900


async def join(
    db: Database, *, subject: str, name: str, profile: Mapping[str, Any], now: datetime, operation_id: str
) -> MemberDocument:
    """Makes the caller a member.

    Args:     profile: about, location, website, birth_year, interests; all optional.
    Returns:  the member.
    Raises:   Conflict (the caller is a member already), InvalidInput.
    Writes:   social.members; one insert.
    """
    member = new_member(subject, name, profile, now)
    if is_repeatable(operation_id):
        member["applied"] = [operation_id]
    stored = await MEMBERS.create_once(db, member)
    if stored is not member and not was_applied(stored, operation_id):
        raise Conflict("You are a member already.")
    return stored


def new_member(subject: str, name: str, profile: Mapping[str, Any], now: datetime) -> MemberDocument:
    """Returns the document of a new member. Raises InvalidInput."""
    with InvalidInput.collect() as check:
        named = check(require_name, name)
        cleaned: Any = check(clean_profile, profile, now)
    keys = searched(named)
    return {
        "_id": subject,
        "name": named,
        "name_key": keys["name_key"],
        "name_keys": keys["name_keys"],
        "name_near": keys["name_near"],
        "profile": cleaned,
        "circles": [],
        "joined": now,
        "schema_version": MEMBERS.version,
    }


async def update_profile(
    db: Database,
    *,
    subject: str,
    name: str | None,
    profile: Mapping[str, Any],
    rate: int | None = None,
    now: datetime,
    operation_id: str,
) -> MemberDocument:
    """Changes the name, or those values of the profile that are given. None clears a value.

    A new name reaches the copies in posts and comments by a job.

    Args:     name: None to keep it.  profile: as for `join`.  rate: the most new names in an hour; None for no bound.
    Returns:  the member.
    Raises:   NotFound (the caller has not joined), InvalidInput, RateLimited.
    Writes:   social.members; one guarded update.
    """
    with InvalidInput.collect() as check:
        wanted = None if name is None else check(require_name, name)
        cleaned = check(clean_profile, profile, now, keeps_empty=True)
    changes = {f"profile.{key}": value for key, value in cleaned.items()}
    member = await members.require(db, subject)
    if was_applied(member, operation_id):
        return member
    if wanted is not None and wanted != member["name"]:
        await member_rates.count(db, subject, member_rates.NAMES, rate=rate, now=now, operation_id=operation_id)
        changes |= {"name": wanted, **searched(wanted)}
        changes["renamed"] = {"op": operation_id, "at": now}
    given = {path: value for path, value in changes.items() if value is not None}
    cleared = {path: "" for path, value in changes.items() if value is None}
    if not changes:
        return member
    update: Document = ({"$set": given} if given else {}) | ({"$unset": cleared} if cleared else {})
    pending = {"_id": subject, **not_applied(operation_id)}
    if (await db[MEMBERS.name].update_one(pending, {**update, **mark_applied(operation_id)})).matched_count:
        await trim_marks(db, MEMBERS, member)
    return await members.require(db, subject)


def require_name(name: str) -> str:
    """Returns the name without surrounding blanks. Raises InvalidInput."""
    return require_line(name, "name", longest=MAX_NAME)


def clean_profile(profile: Mapping[str, Any], now: datetime, *, keeps_empty: bool = False) -> Document:
    """Returns the given values of a profile, checked. Leaves out empty ones, or keeps them as None.

    Raises:   InvalidInput, with a path below `profile`.
    """
    with InvalidInput.collect() as check:
        cleaned = {key: check(_clean, key, value, now) for key, value in profile.items()}
    return {key: value for key, value in cleaned.items() if keeps_empty or value is not None}


def _clean(key: str, value: Any, now: datetime) -> Any:
    """Returns the value of a profile; None for an empty one."""
    if value is None or value in ("", []):
        return None
    match key:
        case "about":
            return require_text(value, "profile", key, longest=MAX_ABOUT)
        case "location":
            return require_line(value, "profile", key, longest=MAX_LOCATION)
        case "website":
            return require_web_url(value, "profile", key)
        case "birth_year":
            return _birth_year(value, now)
        case "interests":
            return _interests(value)
        case _:
            raise InvalidInput(f"A profile has no {key!r}.", "profile", key, code=InvalidInput.UNKNOWN)


def _birth_year(year: int, now: datetime) -> int:
    if not FIRST_BIRTH_YEAR <= year <= now.year:
        text = f"`birthYear` must be between {FIRST_BIRTH_YEAR} and {now.year}; got {year}."
        path = "profile", "birth_year"
        raise InvalidInput(text, *path, code=InvalidInput.OUT_OF_RANGE, least=FIRST_BIRTH_YEAR, most=now.year)
    return year


def _interests(given: Sequence[str]) -> list[str]:
    """Returns the interests, each once, in their order."""
    if len(given) > MAX_INTERESTS:
        message = f"A profile may have {MAX_INTERESTS} interests; got {len(given):,}."
        raise InvalidInput(message, "profile", "interests", code=InvalidInput.TOO_MANY, most=MAX_INTERESTS)
    with InvalidInput.collect() as check:
        found = [
            check(require_line, interest, "profile", "interests", str(number), longest=MAX_INTEREST)
            for number, interest in enumerate(given)
        ]
    return list(dict.fromkeys(found))
