"""Every setting, read once from the environment."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from portico.resolvers.configuration import HttpUrl, Secret, setting

PREFIX = "PORTICO_"

T = TypeVar("T")


class SettingsError(Exception):
    """A setting has a value that cannot be used. The text names the variable."""


Driver = Literal["pymongo", "motor"]
ReadPreference = Literal["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"]
ExecutorName = Literal["compiled", "reference"]
Explorer = Literal["on", "cdn", "off"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["console", "json"]


@dataclass(frozen=True)
class Settings:
    """The variable of a field is its name in capitals after `PORTICO_`. `docs/configuration.md` lists them."""

    mongodb_uri: Secret | None = setting(None, "Where MongoDB is. Unset: the gateway starts one of its own.")
    database: str = setting("portico", "The name of the database.")
    data_dir: Path = setting(Path(".portico"), "Where the embedded MongoDB and the development secret are kept.")
    mongod: str | None = setting(
        None, "The `mongod` to start. Unset: the one on the PATH, else that of the extra `embedded`."
    )
    driver: Driver = setting("pymongo", "`pymongo` or `motor`.")
    read_preference: ReadPreference = setting(
        "primary",
        "Where anonymous callers' reads may go: a MongoDB read preference. Signed-in callers read the primary.",
    )
    direct_reads: bool = setting(
        True,
        "Whether reads of the primary go straight over connections that PyMongo has made. `false`: by it.",
    )

    domains: str | None = setting(
        None, "The domains to serve, with commas between, e.g. `catalog,accounts,shop`. Unset: all that are installed."
    )

    jwt_secret: Secret | None = setting(
        None,
        "The key of HS256 tokens, 32 bytes or more. Unset, and no JWKS either: made once, kept in the data folder.",
    )
    jwks_url: HttpUrl | None = setting(None, "Where the public keys of RS256 and ES256 tokens are published.")
    jwt_issuer: str | None = setting(None, "The `iss` that tokens must have. Unset: not checked.")
    jwt_audience: str = setting("portico", "The `aud` that tokens must have.")

    executor: ExecutorName = setting(
        "compiled", "`compiled`: operations run as plans; `reference`: by graphql-core, field by field."
    )
    max_body_bytes: int = setting(1_000_000, "The largest body of a request, in bytes.")
    max_upload_bytes: int = setting(52_428_800, "The largest file of an upload, in bytes.")
    max_tokens: int = setting(4_000, "The most lexical tokens of an operation's text.")
    max_depth: int = setting(20, "The most levels of fields of an operation.")
    max_cost: int = setting(50_000, "The most fields that an operation may come to answer, by its page sizes.")
    cached_operations: int = setting(1_000, "How many parsed operations a worker keeps.")
    cors_origins: str | None = setting(
        None, "Origins of web pages that may ask the gateway, with commas between; `*` for any. Unset: its own alone."
    )
    operation_seconds: int = setting(60, "How long one operation may take as a whole, before it is given up.")
    upload_seconds: int = setting(600, "How long an operation with files may take as a whole.")
    upload_stall_seconds: int = setting(30, "How long an upload may bring nothing before it is given up.")
    database_seconds: int = setting(30, "How long one command may take, with its retries, before it is given up.")
    stop_seconds: int = setting(10, "How long requests under way may take to finish once the gateway stops.")
    jobs: bool = setting(True, "Whether the gateway runs the jobs, too. `false`: leave them to `portico worker`.")
    job_seconds: float = setting(5.0, "The pause between two turns of a job.")

    graphiql: Explorer = setting(
        "on", "`on`: GraphiQL from the gateway's own files; `cdn`: from a public CDN; `off`: none, as in production."
    )
    show_plans: bool = setting(
        False, "Whether a request may ask for the plan of its operation: in `extensions.plan`. For development."
    )
    demo: bool = setting(
        False, "Whether GraphiQL comes with a token that may do everything, on this machine only. For a demo alone."
    )
    log_level: LogLevel = setting("info", "`debug`, `info`, `warning` or `error`.")
    log_format: LogFormat = setting("console", "`console` for people, `json` for machines.")

    max_operations: int = setting(100, "The most operations under way on one WebSocket.")
    max_waiting_events: int = setting(
        1_000, "How many events of a subscription may wait for a slow client, before it is dropped."
    )
    init_seconds: float = setting(5.0, "How long a WebSocket may take for its first message, `connection_init`.")
    send_seconds: float = setting(10.0, "How long a client may take for a message of a stream, before it is dropped.")
    keep_alive_seconds: float = setting(
        15.0, "The pause between signs of life: a ping on a WebSocket, a comment among server-sent events."
    )

    # Where the settings of domains are read from, and those that were read.
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    slices: Mapping[type, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """The settings in the environment. Raises SettingsError, which names the variable."""
        ours = {name: text for name, text in environ.items() if name.startswith(PREFIX)}
        return cls(**_values(cls, ours), environ=ours)

    def of(self, kind: type[T]) -> T:
        """The settings of a domain, by their type. Raises SettingsError, which names the variable."""
        found: T = self.slices[kind] if kind in self.slices else kind(**_values(kind, self.environ))
        return found

    @classmethod
    def misspelt(cls, kinds: Sequence[type] = (), environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Variables that look like a setting and are none, each with the one that was probably meant.

        Others after the prefix are none of the gateway's business: a cluster names its services by such variables.

        Args:     kinds: the types of the settings of domains.
        """
        known = [variable for kind in (cls, *kinds) for variable, _ in declared(kind)]
        unknown = [name for name in environ if name.startswith(PREFIX) and name not in known]
        close = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.85) for name in unknown}
        return {name: found[0] for name, found in sorted(close.items()) if found}

    @property
    def domain_names(self) -> Sequence[str] | None:
        """The names in `domains`; None for all domains. Raises SettingsError where there is none."""
        if self.domains is None:
            return None
        names = tuple(name.strip() for name in self.domains.split(",") if name.strip())
        if not names:
            raise SettingsError(f"{PREFIX}DOMAINS names no domain.")
        return names

    def signing_secret(self) -> Secret | None:
        """The HS256 key; in development one that is made once and kept. None where only a JWKS is used.

        Raises SettingsError for a key that is too short to be safe (RFC 7518, section 3.2).
        """
        if self.jwt_secret is None and self.jwks_url is not None:
            return None
        path = self.data_dir / "jwt-secret"
        secret = kept_secret(path) if self.jwt_secret is None else self.jwt_secret
        if len(secret.encode()) < 32:  # noqa: PLR2004
            what = f"{PREFIX}DATA_DIR: the secret in {path}" if self.jwt_secret is None else f"{PREFIX}JWT_SECRET"
            raise SettingsError(f"{what} must have 32 bytes or more.")
        return secret


def declared(kind: type) -> Iterator[tuple[str, Any]]:
    """The settings that a dataclass declares: each variable with its dataclass field."""
    for setting_field in dataclasses.fields(kind):
        if "doc" in setting_field.metadata:
            yield PREFIX + setting_field.name.upper(), setting_field


def _values(kind: type, environ: Mapping[str, str]) -> dict[str, Any]:
    types = get_type_hints(kind, include_extras=True)
    return {
        found.name: _parse(variable, environ[variable], _without_none(types[found.name]))
        for variable, found in declared(kind)
        if environ.get(variable)
    }


def kept_secret(path: Path) -> Secret:
    """The secret in the file, which is made where there is none. Safe to call from several processes at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        if not path.exists():
            made.touch(mode=0o600)
            made.write_text(secrets.token_urlsafe(48))
            try:
                # A link is made whole or not at all, and never over another's.
                os.link(made, path)
            except FileExistsError:
                pass
            finally:
                made.unlink()
        return Secret(path.read_text().strip())
    except OSError as error:
        raise SettingsError(f"{PREFIX}DATA_DIR: the secret cannot be kept in {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{PREFIX}DATA_DIR: the secret in {path} is not UTF-8.") from None


_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _without_none(kind: Any) -> Any:
    """The type of a setting's values, for one that may be unset."""
    given = [one for one in get_args(kind) if one is not NoneType]
    return given[0] if NoneType in get_args(kind) else kind


def _parse(name: str, text: str, kind: Any) -> Any:
    if kind is not Path and not _is_utf8(text):
        raise SettingsError(f"{name} is not UTF-8.")
    if kind in {int, float}:
        try:
            return _positive(kind(text))
        except ValueError:
            raise SettingsError(f"{name} must be a number above zero, and is {text!r}.") from None
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise SettingsError(f"{name} must be true or false, and is {text!r}.")
        return _TRUTH[text.lower()]
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise SettingsError(f"{name} must be one of {', '.join(get_args(kind))}, and is {text!r}.")
        return text
    if kind == HttpUrl:
        if not re.match(r"https?://[^/]", text):
            raise SettingsError(f"{name} must be a URL with http or https, and is {text!r}.")
        return text
    # The rest take any text; a type that would not is to be dealt with above.
    assert kind in {str, Secret, Path}, kind
    return kind(text)


def _is_utf8(text: str) -> bool:
    """Whether the variable was UTF-8. What was not cannot be sent anywhere; only the name of a file may be such."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _positive(number: float) -> float:
    if not 0 < number < math.inf:
        raise ValueError(number)
    return number
