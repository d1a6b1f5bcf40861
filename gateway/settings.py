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
from typing import Any, Literal, TypeVar, get_args, get_origin

from portico.resolvers.configuration import HostPort, HttpUrl, Secret, is_setting, setting, types_of

PREFIX = "PORTICO_"
MAX_PORT = 65_535

T = TypeVar("T")


class SettingsError(Exception):
    """A setting has an invalid value. The text names the variable."""


Driver = Literal["pymongo", "motor"]
ReadPreference = Literal["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"]
ExecutorName = Literal["compiled", "reference"]
Explorer = Literal["on", "cdn", "off"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["console", "json"]
DocumentsMode = Literal["any", "prefer", "only"]


@dataclass(frozen=True)
class Settings:
    """The settings. The variable of each is `PORTICO_` and its name in capitals; docs/configuration.md lists them."""

    mongodb_uri: Secret | None = setting(
        None, "The MongoDB connection string. Unset: the gateway starts its own MongoDB."
    )
    database: str = setting("portico", "The name of the database.")
    data_dir: Path = setting(Path(".portico"), "The folder for the embedded MongoDB and the development secret.")
    mongod: str | None = setting(
        None, "The `mongod` program to start. Unset: `mongod` on the `PATH`, or else the one in the extra `embedded`."
    )
    driver: Driver = setting("pymongo", "The MongoDB driver: `pymongo` or `motor`.")
    read_preference: ReadPreference = setting(
        "primary",
        "The MongoDB read preference for anonymous callers. Signed-in callers read from the primary.",
    )
    direct_reads: bool = setting(
        True,
        "Whether small writes, and reads from the primary, use PyMongo's connections directly. `false`: all commands "
        "go through PyMongo.",
    )

    domains: str | None = setting(
        None, "The domains to serve, separated by commas, for example `catalog,accounts,shop`. Unset: all installed."
    )

    read_only: bool = setting(
        False,
        "Whether the gateway only reads: it creates no indexes, runs no jobs, and refuses mutations. For a user of "
        "MongoDB with the role `read`.",
    )
    core_prefix: str | None = setting(
        None,
        "What the names of the collections `operations`, `intents`, `leases`, `secrets` and `persisted_queries` begin "
        "with, for example `portico_`. Unset: nothing.",
    )

    jwt_secret: Secret | None = setting(
        None,
        "The key of HS256 tokens, 32 bytes or more. Unset, without a JWKS URL: a generated key in the data folder.",
    )
    jwks_url: HttpUrl | None = setting(None, "The URL of the public keys (JWKS) for RS256 and ES256 tokens.")
    jwt_issuer: str | None = setting(None, "The `iss` claim that tokens must have. Unset: `iss` is not checked.")
    jwt_audience: str = setting("portico", "The `aud` claim that tokens must have.")

    executor: ExecutorName = setting(
        "compiled", "`compiled`: operations run as compiled plans. `reference`: graphql-core runs them field by field."
    )
    max_body_bytes: int = setting(1_000_000, "The largest request body, in bytes.")
    max_upload_bytes: int = setting(52_428_800, "The largest file in an upload, in bytes.")
    max_tokens: int = setting(4_000, "The most lexical tokens in a GraphQL document.")
    max_depth: int = setting(20, "The most levels of nested fields in an operation.")
    max_cost: int = setting(50_000, "The highest cost of an operation: about how many fields it can return.")
    max_answer_bytes: int = setting(
        5_000_000, "The most bytes that an operation can read from MongoDB for its answer, and can answer with."
    )
    max_unread_bytes: int = setting(
        30_000_000,
        "The most bytes of answers that a worker holds for clients that have not read them yet. Beyond that, it "
        "disconnects the client that has read nothing for the longest time.",
    )
    caller_rate: int | None = setting(
        None, "The cost that all operations of one caller with a token may have in a minute. Unset: no limit."
    )
    address_rate: int | None = setting(
        None,
        "The cost that all operations of the anonymous callers of one address may have in a minute. Unset: no limit.",
    )
    max_running_queries: int = setting(6, "The most queries and events of subscriptions that a worker runs at a time.")
    max_running_mutations: int = setting(16, "The most mutations that a worker runs at a time.")
    max_queued: int = setting(
        2_000, "The most queries, and the most mutations, that can wait to run in a worker before it refuses others."
    )
    queue_seconds: float = setting(30.0, "Seconds until the gateway refuses an operation that waits to run.")
    max_uploads: int = setting(100, "The most uploads that a worker receives at a time.")
    count_seconds: float = setting(
        10.0, "Seconds that counts and facets are kept and shared. A MERCHANT always gets current ones."
    )
    cache_bytes: int = setting(
        0, "The most bytes of answers to queries that a worker keeps until a change affects them. `0`: none."
    )
    cached_operations: int = setting(1_000, "The most parsed operations in the cache of a worker.")
    documents: DocumentsMode = setting(
        "any",
        "Which operations run: `any`; `prefer`: any, and those that are not trusted documents are logged; `only`: "
        "trusted documents only.",
    )
    document_files: str | None = setting(
        None, "Files of trusted documents, separated by commas. `portico serve --documents` sets it. Unset: none."
    )
    persisted_queries: bool = setting(True, "Whether clients can persist queries by their hashes.")
    max_persisted_queries: int = setting(
        10_000, "The most persisted queries in the database. The gateway removes those that were not used for longest."
    )
    cors_origins: str | None = setting(
        None, "Origins of web pages that can call the gateway, separated by commas. `*`: any. Unset: only its own."
    )
    cors_headers: str | None = setting(
        None,
        "Names of more request headers that these pages can send, separated by commas. `*`: any. Unset: those of "
        "well-known clients.",
    )
    compression: bool = setting(True, "Whether responses are compressed for clients that accept zstd, Brotli or gzip.")
    compress_bytes: int = setting(1_000, "The size in bytes from which responses are compressed.")
    operation_seconds: int = setting(60, "Seconds until an operation times out.")
    upload_seconds: int = setting(600, "Seconds until an operation with files times out.")
    upload_stall_seconds: int = setting(30, "Seconds until an upload times out if the client sends no data.")
    database_seconds: int = setting(30, "Seconds until a MongoDB command times out, including its retries.")
    key_hours: int = setting(24, "Hours for which an idempotency key keeps its operation and its answer.")
    admin_address: HostPort | None = setting(
        None, "The host and port for `/metrics` and the health checks, for example `127.0.0.1:9000`. Unset: none."
    )
    metrics: bool | None = setting(
        None,
        "Whether everybody can read `/metrics`. Unset: neither in production nor with `PORTICO_ADMIN_ADDRESS`.",
    )
    header_seconds: float = setting(
        10.0, "Seconds for a client to send the headers of a request, from its connection or its first byte."
    )
    body_seconds: float = setting(
        30.0,
        "Seconds for a client to send the body of a request, or a message of a WebSocket. In an upload: the parts "
        "before its files.",
    )
    read_seconds: float = setting(
        30.0, "Seconds until the gateway disconnects a client that reads nothing of what is sent to it."
    )
    drain_seconds: float = setting(
        1.0, "Seconds from SIGTERM, for which `/readyz` answers 503 and the gateway still accepts requests."
    )
    stop_seconds: int = setting(
        10, "Seconds for requests in flight to finish, after the gateway has closed its socket."
    )
    jobs: bool = setting(True, "Whether the gateway also runs the jobs. `false`: only `portico worker` runs them.")
    job_seconds: float = setting(5.0, "Seconds between two runs of a job, if the first run found nothing to do.")

    production: bool = setting(
        False, "Whether to refuse settings for development at start, and to list what production still needs."
    )
    introspection: bool | None = setting(
        None,
        "Whether clients may introspect the schema, and errors suggest names. Unset: not in production.",
    )
    graphiql: Explorer = setting(
        "on", "`on`: GraphiQL from the gateway's own files. `cdn`: from a public CDN. `off`: none, for production."
    )
    show_plans: bool = setting(
        False, "Whether a request can get the plan of its operation in `extensions.plan`. For development."
    )
    demo: bool = setting(
        False,
        "Whether GraphiQL has a token with all permissions, and the storefront those of members, on this machine only. "
        "For demos only.",
    )
    log_level: LogLevel = setting("info", "The lowest level to log: `debug`, `info`, `warning` or `error`.")
    log_format: LogFormat = setting("console", "The log format: `console` for people, `json` for programs.")

    max_operations: int = setting(100, "The most operations in flight on one WebSocket.")
    max_waiting_events: int = setting(
        1_000, "The most events of a subscription that can wait for a slow client before the gateway drops the client."
    )
    resume_seconds: float = setting(
        600.0, "For how many seconds a subscription that was cut off can continue with the events that it missed."
    )
    max_live_queries: int = setting(
        10_000, "The most different live queries of a worker. Equal ones of equal callers count as one."
    )
    live_pause_ms: int = setting(20, "The least milliseconds between the beginnings of two runs of one live query.")
    init_seconds: float = setting(5.0, "Seconds for a WebSocket client to send its first message, `connection_init`.")
    send_seconds: float = setting(
        10.0, "Seconds until the gateway drops a client that does not receive a message of a stream."
    )
    keep_alive_seconds: float = setting(
        15.0, "Seconds between keep-alive messages: pings on a WebSocket, comments in server-sent events."
    )

    # The variables that the settings of domains are read from, and the settings already read.
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    slices: Mapping[type, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Returns the settings in the environment. Raises SettingsError, which names the variable."""
        ours = {name: text for name, text in environ.items() if name.startswith(PREFIX)}
        return cls(**_values(cls, ours), environ=ours)

    def of(self, kind: type[T]) -> T:
        """Returns the settings of this type: those of a domain, or these. Raises SettingsError for a wrong value."""
        if isinstance(self, kind):
            return self
        found: T = self.slices[kind] if kind in self.slices else kind(**_values(kind, self.environ))
        return found

    @classmethod
    def misspelt(cls, kinds: Sequence[type] = (), environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Returns the variables that look like a misspelt setting, each with the setting that was probably meant.

        Other unknown variables with the prefix are ignored: Kubernetes sets such variables for its services.

        Args:     kinds: the types of the settings of domains.
        """
        known = [variable for kind in (cls, *kinds) for variable, _ in declared(kind)]
        unknown = [name for name in environ if name.startswith(PREFIX) and name not in known]
        close = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.85) for name in unknown}
        return {name: found[0] for name, found in sorted(close.items()) if found}

    @property
    def allows_introspection(self) -> bool:
        return not self.production if self.introspection is None else self.introspection

    @property
    def document_paths(self) -> Sequence[Path]:
        """The files of trusted documents. Raises SettingsError if none are named, but only such documents may run."""
        names = [name.strip() for name in (self.document_files or "").split(",") if name.strip()]
        if not names and self.documents != "any":
            raise SettingsError(f"{PREFIX}DOCUMENTS is {self.documents}, so {PREFIX}DOCUMENT_FILES must name a file.")
        return [Path(name) for name in names]

    @property
    def shows_graphiql(self) -> bool:
        """Whether there is a GraphiQL. It sends texts of its own, so it cannot work with trusted documents only."""
        return self.graphiql != "off" and self.documents != "only"

    @property
    def database_address(self) -> str:
        """The address and the name of the database, which tell databases apart. It can hold a password."""
        return f"{self.mongodb_uri or self.data_dir.absolute()} {self.database}"

    @property
    def shows_metrics(self) -> bool:
        """Whether everybody can read the metrics. They are always at the address for operators, if there is one."""
        return not (self.production or self.admin_address) if self.metrics is None else self.metrics

    @property
    def domain_names(self) -> Sequence[str] | None:
        """The names in `domains`; None for all domains. Raises SettingsError if the setting names none."""
        if self.domains is None:
            return None
        names = tuple(name.strip() for name in self.domains.split(",") if name.strip())
        if not names:
            raise SettingsError(f"{PREFIX}DOMAINS names no domain. Name one or more, separated by commas, or unset it.")
        return names

    def signing_secret(self) -> Secret | None:
        """Returns the HS256 key, or a generated one that is kept in the data folder. None if only a JWKS is set.

        Raises SettingsError for a key that is too short to be secure (RFC 7518, section 3.2).
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
    """Yields each setting that a dataclass declares: its variable and its dataclass field."""
    for setting_field in dataclasses.fields(kind):
        if is_setting(setting_field):
            yield PREFIX + setting_field.name.upper(), setting_field


def _values(kind: type, environ: Mapping[str, str]) -> dict[str, Any]:
    types = types_of(kind)
    return {
        found.name: _parse(variable, environ[variable], types[found.name])
        for variable, found in declared(kind)
        if environ.get(variable)
    }


def kept_secret(path: Path) -> Secret:
    """Returns the secret in the file, and creates a missing one. Several processes can call this concurrently."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        if not path.exists():
            made.touch(mode=0o600)
            made.write_text(secrets.token_urlsafe(48))
            try:
                # Creating a link is atomic, and fails if another process has created the file.
                os.link(made, path)
            except FileExistsError:
                pass
            finally:
                made.unlink()
        return Secret(path.read_text().strip())
    except OSError as error:
        raise SettingsError(f"{PREFIX}DATA_DIR: cannot read or write the secret in {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{PREFIX}DATA_DIR: the secret in {path} is not UTF-8.") from None


_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _parse(name: str, text: str, kind: Any) -> Any:
    if kind is not Path and not _is_utf8(text):
        raise SettingsError(f"{name} is not UTF-8.")
    if kind in {int, float}:
        try:
            return _positive(kind(text))
        except ValueError:
            number = "whole number" if kind is int else "finite number"
            raise SettingsError(f"{name} must be a {number} above zero; got {text!r}.") from None
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise SettingsError(f"{name} must be true or false; got {text!r}.")
        return _TRUTH[text.lower()]
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise SettingsError(f"{name} must be one of {', '.join(get_args(kind))}; got {text!r}.")
        return text
    if kind in {HttpUrl, HostPort}:
        (_require_url if kind == HttpUrl else split_address)(text, name)
        return text
    # The remaining types accept any text: str, Secret and Path.
    return kind(text)


def _require_url(text: str, name: str) -> None:
    if not re.match(r"https?://[^/]", text):
        raise SettingsError(f"{name} must be a URL with http or https; got {text!r}.")


def split_address(text: str, name: str = "The address") -> tuple[str, int]:
    """Returns the host and the port of an address. An IPv6 host is in brackets. Raises SettingsError with the name."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})", text, re.ASCII)
    if found is None or not 0 < int(found[3]) <= MAX_PORT:
        raise SettingsError(f"{name} must be a host and a port, for example 127.0.0.1:9000; got {text!r}.")
    return found[1] or found[2], int(found[3])


def _is_utf8(text: str) -> bool:
    """Returns whether the variable was UTF-8. Other bytes are allowed in file names only."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _positive(number: float) -> float:
    if not 0 < number < math.inf:
        raise ValueError(number)
    return number
