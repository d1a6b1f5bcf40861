"""Checks at start whether the user of MongoDB has the rights that the gateway needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from portico.gateway.settings import PREFIX, SettingsError
from portico.resolvers.documents import Database

_READING, _WATCHING = ("find",), ("changeStream", "find")
_WRITING = ("createIndex", "find", "insert", "remove", "update")


async def require_rights(db: Database, names: Iterable[str], *, to_write: bool) -> None:
    """Raises SettingsError, with one line, if the user may not read, or not write, one of these collections.

    Without users, MongoDB allows everything, and there is nothing to check.
    """
    status: Any = await db.command({"connectionStatus": 1, "showPrivileges": True})
    users = status["authInfo"]["authenticatedUsers"]
    if not users:
        return
    privileges = status["authInfo"]["authenticatedUserPrivileges"]
    # Subscriptions read changes of the whole database. Its privilege names no collection.
    wanted = [("", _WATCHING), *((db[name].name, _WRITING if to_write else _READING) for name in names)]
    for name, actions in wanted:
        missing = sorted(set(actions) - _granted(privileges, db.name, name))
        if missing:
            raise SettingsError(_line(users[0]["user"], missing, db.name, name, to_write=to_write))


def _granted(privileges: Iterable[Mapping[str, Any]], database: str, collection: str) -> set[str]:
    """Returns what a user with these privileges may do in a collection. An empty name stands for all of them."""
    return {
        action
        for privilege in privileges
        if _covers(privilege["resource"], database, collection)
        for action in privilege["actions"]
    }


def _covers(resource: Mapping[str, Any], database: str, collection: str) -> bool:
    if resource.get("anyResource"):
        return True
    return resource.get("db") in {"", database} and resource.get("collection") in {"", collection}


def _line(user: str, missing: list[str], database: str, collection: str, *, to_write: bool) -> str:
    where = f"{database}.{collection}" if collection else f"the database {database}"
    role = "readWrite" if to_write else "read"
    only = f", or set {PREFIX}READ_ONLY=true to serve without writing" if to_write else ""
    return (
        f"MongoDB: the user {user} lacks the right {', '.join(missing)} in {where}. "
        f"Grant the user the role {role} on the database {database}{only}."
    )
