"""Imports members and circles, in the format of Portico or in that of the SNAP ego networks."""

from __future__ import annotations

from typing import Any

from portico.gateway.imports.fields import (
    Record,
    as_key,
    as_list,
    as_number,
    as_text,
    as_texts,
    key_at,
    object_of,
    optional,
    text_at,
)
from portico.gateway.imports.runs import Importer
from portico.resolvers.errors import InvalidInput
from portico.resolvers.social.member_edits import MAX_INTERESTS
from portico.resolvers.social.people_imports import CircleRecord, PersonRecord, import_people

# The circle that both members of an edge of a network are in.
FRIENDS = "friends"
_PROFILE = {"about", "location", "website", "birthYear", "interests"}
# The formats of records, each by the fields that it must have.
_NETWORK_PERSON, _NETWORK_CIRCLE, _EDGE = {"id", "profile"}, {"ego", "circle", "members"}, {"a", "b"}


def people(prefix: str = "") -> Importer:
    """Returns the importer of members. `prefix` comes before the ids of a network to make subjects."""

    def read(given: Any) -> PersonRecord | CircleRecord:
        return person_or_circle(given, prefix)

    return Importer(read, lambda record: record.key, import_people, awaits="member", options=_OPTIONS, configure=people)


_OPTIONS = (
    Importer.Option(
        "prefix",
        str | None,
        "For an ego network: the text before each id that makes it the subject of a member, e.g. `snap-`.",
        "TEXT",
    ),
)


def person_or_circle(given: Any, prefix: str = "") -> PersonRecord | CircleRecord:
    """Parses one record. Raises InvalidInput.

    * {"subject", "name", "profile"?}, with the fields of `ProfileInput` in `profile`: a member.
    * {"of", "circle", "members"}, with subjects: members of a circle.
    * {"id", "profile", …}, {"ego", "circle", "members", …} and {"a", "b"}: a person, a circle and an edge of an ego
      network. An edge puts each of both into the circle `friends` of the other.
    """
    record = object_of(given, None)
    if record.keys() >= _EDGE:
        a, b = (_network_id(record[name], prefix, name) for name in ("a", "b"))
        return CircleRecord(a, FRIENDS, [b], is_mutual=True)
    if record.keys() >= _NETWORK_CIRCLE:
        others = as_list(record["members"], "members")
        ids = [_network_id(other, prefix, "members", str(place)) for place, other in enumerate(others)]
        return CircleRecord(_network_id(record["ego"], prefix, "ego"), text_at(record, "circle"), ids)
    if record.keys() >= _NETWORK_PERSON:
        return _network_person(record, prefix)
    if "of" in record:
        object_of(record, {"of", "circle", "members"})
        others = as_list(record.get("members"), "members")
        subjects = [as_key(other, "members", str(place)) for place, other in enumerate(others)]
        return CircleRecord(key_at(record, "of"), text_at(record, "circle"), subjects)
    object_of(record, {"subject", "name", "profile"})
    profile = optional(record, "profile", _profile) or {}
    return PersonRecord(key_at(record, "subject"), text_at(record, "name"), profile)


def _profile(value: Any, *path: str) -> dict[str, Any]:
    profile = object_of(value, _PROFILE, *path)
    texts = {name: optional(profile, name, as_text, *path) for name in ("about", "location", "website")}
    year = optional(profile, "birthYear", as_number, *path)
    return {
        **texts,
        "birth_year": None if year is None else int(year),
        "interests": optional(profile, "interests", as_texts, *path),
    }


def _network_person(record: Record, prefix: str) -> PersonRecord:
    """Returns a person of a network. The features have numbers for values, and become interests: `gender 78`."""
    features = object_of(record["profile"], None, "profile")
    interests = [
        f"{kind.replace(';', ' ')} {number}"
        for kind, numbers in features.items()
        for number in as_list(numbers, "profile", kind)
    ]
    subject = _network_id(record["id"], prefix, "id")
    return PersonRecord(subject, f"Person {record['id']}", {"interests": interests[:MAX_INTERESTS]})


def _network_id(value: Any, prefix: str, *path: str) -> str:
    """Returns the subject of a member of a network, whose id is a number or a string."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidInput("must be a number or a string", *path)
    return as_key(f"{prefix}{value}", *path)
