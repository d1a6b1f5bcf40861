"""What a gateway in production refuses, and what it should have.

Source: the checklist in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from pymongo.uri_parser import parse_uri

from .settings import PREFIX, Settings, SettingsError

# Above these, a limit limits nothing: twenty to a hundred times the defaults.
_HIGHEST = {
    "max_tokens": 100_000,
    "max_depth": 500,
    "max_cost": 1_000_000,
    "max_answer_bytes": 100_000_000,
    "max_body_bytes": 100_000_000,
    "operation_seconds": 1_200,
}
_SINGLE_SERVER = (
    "MongoDB is a single server that is not a replica set. Subscriptions, live queries and notifications do not work, "
    "and doctor cannot check the game."
)


def require(settings: Settings) -> None:
    """Raises SettingsError, with all reasons, if this is production and the settings are for development."""
    found = list(_refused(settings)) if settings.production else []
    if found:
        raise SettingsError(_listed(f"{PREFIX}PRODUCTION is true, so the gateway does not start:", found))


def advice(settings: Settings, *, is_single_server: bool) -> str | None:
    """Returns what production should have in addition, as a list; otherwise what does not work. None: nothing."""
    if not settings.production:
        return _SINGLE_SERVER if is_single_server else None
    found = list(_missing(settings, is_single_server=is_single_server))
    return _listed(f"{PREFIX}PRODUCTION is true, and this is still missing:", found) if found else None


def _refused(settings: Settings) -> Iterator[str]:
    if settings.graphiql != "off":
        yield f"{PREFIX}GRAPHIQL must be off."
    if settings.show_plans:
        yield f"{PREFIX}SHOW_PLANS must be false: plans show how the data is stored."
    if settings.demo:
        yield f"{PREFIX}DEMO must be false: the demo has a token with all permissions."
    if settings.jwt_secret is None and settings.jwks_url is None:
        yield f"{PREFIX}JWKS_URL or {PREFIX}JWT_SECRET must be set: a generated secret is for development."
    if settings.mongodb_uri is None:
        yield f"{PREFIX}MONGODB_URI must be set: the embedded MongoDB is for development."
    for name, highest in _HIGHEST.items():
        if getattr(settings, name) > highest:
            yield f"{PREFIX}{name.upper()} must be at most {highest}: a higher limit protects nothing."


def _missing(settings: Settings, *, is_single_server: bool) -> Iterator[str]:
    if is_single_server:
        yield "MongoDB is a single server. Use a replica set of three servers, or a sharded cluster."
    if settings.mongodb_uri is not None:
        try:
            parsed = parse_uri(settings.mongodb_uri, validate=False, warn=False)
        except Exception:  # noqa: BLE001 - the driver reports a wrong URI with its own text
            parsed = {}
        if parsed and not parsed["username"] and "authmechanism" not in parsed["options"]:
            yield f"{PREFIX}MONGODB_URI has no user."
        if parsed and not parsed["options"].get("tls"):
            yield f"{PREFIX}MONGODB_URI does not use TLS."
    if settings.jwks_url is not None and settings.jwt_issuer is None:
        yield f"{PREFIX}JWT_ISSUER is not set, so tokens of every issuer with these keys are valid."
    if settings.admin_address is None:
        readers = "everybody" if settings.shows_metrics else "nobody"
        yield f"{PREFIX}ADMIN_ADDRESS is not set, so {readers} can read /metrics."
    if settings.caller_rate is None or settings.address_rate is None:
        yield f"{PREFIX}CALLER_RATE or {PREFIX}ADDRESS_RATE is not set, so one client may use a whole worker."
    if settings.log_format != "json":
        yield f"{PREFIX}LOG_FORMAT is not json, so programs cannot read the log."


def _listed(title: str, lines: list[str]) -> str:
    return "\n".join([title, *(f"  * {line}" for line in lines)])
