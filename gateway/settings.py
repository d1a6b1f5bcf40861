"""Every setting, read once from the environment."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

PREFIX = "PORTICO_"


class SettingsError(Exception):
    """A setting has a value that cannot be used. The text names the variable."""


class Secret(str):
    """A text that does not print itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


def _setting(default: Any, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


Driver = Literal["pymongo", "motor"]
ReadPreference = Literal["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"]
ExecutorName = Literal["compiled", "reference"]
Explorer = Literal["on", "cdn", "off"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["console", "json"]
HttpUrl = Annotated[str, "http or https"]


@dataclass(frozen=True)
class Settings:
    """The variable of a field is its name in capitals after `PORTICO_`. `docs/configuration.md` lists them."""

    mongodb_uri: Secret | None = _setting(None, "Where MongoDB is. Unset: the gateway starts one of its own.")
    database: str = _setting("portico", "The name of the database.")
    data_dir: Path = _setting(Path(".portico"), "Where the embedded MongoDB and the development secret are kept.")
    mongod: str | None = _setting(
        None, "The `mongod` to start. Unset: the one on the PATH, else that of the extra `embedded`."
    )
    driver: Driver = _setting("pymongo", "`pymongo` or `motor`.")
    read_preference: ReadPreference = _setting(
        "primary",
        "Where anonymous callers' reads may go: a MongoDB read preference. Signed-in callers read the primary.",
    )
    direct_reads: bool = _setting(
        True,
        "Whether reads of the primary go straight over connections that PyMongo has made. `false`: by it.",
    )

    jwt_secret: Secret | None = _setting(
        None,
        "The key of HS256 tokens, 32 bytes or more. Unset, and no JWKS either: made once, kept in the data folder.",
    )
    jwks_url: HttpUrl | None = _setting(None, "Where the public keys of RS256 and ES256 tokens are published.")
    jwt_issuer: str | None = _setting(None, "The `iss` that tokens must have. Unset: not checked.")
    jwt_audience: str = _setting("portico", "The `aud` that tokens must have.")

    executor: ExecutorName = _setting(
        "compiled", "`compiled`: operations run as plans; `reference`: by graphql-core, field by field."
    )
    max_body_bytes: int = _setting(1_000_000, "The largest body of a request, in bytes.")
    max_upload_bytes: int = _setting(52_428_800, "The largest file of an upload, in bytes.")
    max_photo_pixels: int = _setting(50_000_000, "The most pixels of a photo; of a moving one, of all its frames.")
    max_tokens: int = _setting(4_000, "The most lexical tokens of an operation's text.")
    max_depth: int = _setting(20, "The most levels of fields of an operation.")
    max_cost: int = _setting(50_000, "The most fields that an operation may come to answer, by its page sizes.")
    cached_operations: int = _setting(1_000, "How many parsed operations a worker keeps.")
    cors_origins: str | None = _setting(
        None, "Origins of web pages that may ask the gateway, with commas between; `*` for any. Unset: its own alone."
    )
    operation_seconds: int = _setting(60, "How long one operation may take as a whole, before it is given up.")
    upload_seconds: int = _setting(600, "How long an operation with files may take as a whole.")
    upload_stall_seconds: int = _setting(30, "How long an upload may bring nothing before it is given up.")
    database_seconds: int = _setting(30, "How long one command may take, with its retries, before it is given up.")
    stop_seconds: int = _setting(10, "How long requests under way may take to finish once the gateway stops.")
    jobs: bool = _setting(True, "Whether the gateway runs the jobs, too. `false`: leave them to `portico worker`.")
    job_seconds: float = _setting(5.0, "The pause between two turns of a job.")

    graphiql: Explorer = _setting(
        "on", "`on`: GraphiQL from the gateway's own files; `cdn`: from a public CDN; `off`: none, as in production."
    )
    show_plans: bool = _setting(
        False, "Whether a request may ask for the plan of its operation: in `extensions.plan`. For development."
    )
    demo: bool = _setting(
        False, "Whether GraphiQL comes with a token that may do everything, on this machine only. For a demo alone."
    )
    log_level: LogLevel = _setting("info", "`debug`, `info`, `warning` or `error`.")
    log_format: LogFormat = _setting("console", "`console` for people, `json` for machines.")

    site_url: HttpUrl | None = _setting(
        None, "Where the pages of the site are: links in feeds begin with it. Unset: where the gateway itself is."
    )

    max_operations: int = _setting(100, "The most operations under way on one WebSocket.")
    max_waiting_events: int = _setting(
        1_000, "How many events of a subscription may wait for a slow client, before it is dropped."
    )
    init_seconds: float = _setting(5.0, "How long a WebSocket may take for its first message, `connection_init`.")
    send_seconds: float = _setting(10.0, "How long a client may take for a message of a stream, before it is dropped.")
    keep_alive_seconds: float = _setting(
        15.0, "The pause between signs of life: a ping on a WebSocket, a comment among server-sent events."
    )

    cart_seconds: int = _setting(14_400, "How long an idle cart keeps its items.")
    payment_url: HttpUrl | None = _setting(
        None, "Where the payment provider is. Unset: tokens are not taken, and carts are paid by account alone."
    )
    payment_key: Secret | None = _setting(None, "The bearer token that the payment provider asks for.")
    payment_seconds: float = _setting(10.0, "How long the payment provider may take for an answer, with retries.")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """The settings in the environment. Raises SettingsError, which names the variable."""
        values = {}
        types = get_type_hints(cls, include_extras=True)
        for setting in dataclasses.fields(cls):
            name = PREFIX + setting.name.upper()
            if environ.get(name):
                values[setting.name] = _parse(name, environ[name], _without_none(types[setting.name]))
        return cls(**values)

    @classmethod
    def misspelt(cls, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Variables that look like a setting and are none, each with the one that was probably meant.

        Others after the prefix are none of the gateway's business: a cluster names its services by such variables.
        """
        known = [PREFIX + setting.name.upper() for setting in dataclasses.fields(cls)]
        unknown = [name for name in environ if name.startswith(PREFIX) and name not in known]
        close = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.85) for name in unknown}
        return {name: found[0] for name, found in sorted(close.items()) if found}

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
