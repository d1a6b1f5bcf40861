"""Every setting comes from the environment, is checked once, and is documented."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from portico.gateway.settings import Settings, SettingsError, declared, kept_secret, split_address
from portico.resolvers.configuration import Secret
from tests.support.domains import DOMAINS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
SLICES = [domain.settings for domain in DOMAINS.all if domain.settings is not None]
# By the name of the variable: the class that declares the setting, and the field.
OWNERS: dict[str, type] = {variable: kind for kind in (Settings, *SLICES) for variable, _ in declared(kind)}
FIELDS = {variable: field for kind in (Settings, *SLICES) for variable, field in declared(kind)}
GOOD: dict[str, tuple[str, Any]] = {
    "PORTICO_MONGODB_URI": ("mongodb://user:password@host/", Secret("mongodb://user:password@host/")),
    "PORTICO_DATABASE": ("shop", "shop"),
    "PORTICO_DATA_DIR": ("/data/portico", Path("/data/portico")),
    "PORTICO_MONGOD": ("/opt/mongod", "/opt/mongod"),
    "PORTICO_DRIVER": ("motor", "motor"),
    "PORTICO_READ_PREFERENCE": ("secondaryPreferred", "secondaryPreferred"),
    "PORTICO_DIRECT_READS": ("false", False),
    "PORTICO_READ_ONLY": ("true", True),
    "PORTICO_CORE_PREFIX": ("portico_", "portico_"),
    "PORTICO_JWT_SECRET": ("x" * 32, Secret("x" * 32)),
    "PORTICO_JWKS_URL": ("https://issuer.example/keys", "https://issuer.example/keys"),
    "PORTICO_JWT_ISSUER": ("https://issuer.example", "https://issuer.example"),
    "PORTICO_JWT_AUDIENCE": ("shop", "shop"),
    "PORTICO_DOMAINS": ("catalog,shop", "catalog,shop"),
    "PORTICO_EXECUTOR": ("reference", "reference"),
    "PORTICO_MAX_BODY_BYTES": ("2000000", 2_000_000),
    "PORTICO_MAX_UPLOAD_BYTES": ("1000", 1_000),
    "PORTICO_MAX_PHOTO_PIXELS": ("2000", 2_000),
    "PORTICO_MAX_TOKENS": ("500", 500),
    "PORTICO_MAX_DEPTH": ("5", 5),
    "PORTICO_MAX_COST": ("1", 1),
    "PORTICO_MAX_ANSWER_BYTES": ("10000", 10_000),
    "PORTICO_CALLER_RATE": ("6000", 6000),
    "PORTICO_ADDRESS_RATE": ("600", 600),
    "PORTICO_MAX_RUNNING_QUERIES": ("8", 8),
    "PORTICO_MAX_RUNNING_MUTATIONS": ("32", 32),
    "PORTICO_MAX_QUEUED": ("100", 100),
    "PORTICO_QUEUE_SECONDS": ("2.5", 2.5),
    "PORTICO_MAX_UPLOADS": ("3", 3),
    "PORTICO_CACHE_BYTES": ("10", 10),
    "PORTICO_CACHED_OPERATIONS": ("10", 10),
    "PORTICO_COUNT_SECONDS": ("2.5", 2.5),
    "PORTICO_MAX_COUNTED": ("500", 500),
    "PORTICO_MAX_IMAGE_BYTES": ("1000", 1_000),
    "PORTICO_IMPORT_PRIVATE_HOSTS": ("true", True),
    "PORTICO_MAX_IMAGE_PIXELS": ("2000", 2_000),
    "PORTICO_DOCUMENTS": ("prefer", "prefer"),
    "PORTICO_DOCUMENT_FILES": ("web.json, app.json", "web.json, app.json"),
    "PORTICO_PERSISTED_QUERIES": ("false", False),
    "PORTICO_MAX_PERSISTED_QUERIES": ("100", 100),
    "PORTICO_CORS_ORIGINS": ("https://shop.example", "https://shop.example"),
    "PORTICO_CORS_HEADERS": ("x-tenant", "x-tenant"),
    "PORTICO_COMPRESSION": ("false", False),
    "PORTICO_COMPRESS_BYTES": ("5000", 5_000),
    "PORTICO_OPERATION_SECONDS": ("7", 7),
    "PORTICO_UPLOAD_SECONDS": ("120", 120),
    "PORTICO_UPLOAD_STALL_SECONDS": ("4", 4),
    "PORTICO_DATABASE_SECONDS": ("5", 5),
    "PORTICO_ADMIN_ADDRESS": ("127.0.0.1:9000", "127.0.0.1:9000"),
    "PORTICO_METRICS": ("false", False),
    "PORTICO_HEADER_SECONDS": ("3", 3.0),
    "PORTICO_BODY_SECONDS": ("4.5", 4.5),
    "PORTICO_READ_SECONDS": ("4.5", 4.5),
    "PORTICO_MAX_UNREAD_BYTES": ("1000", 1000),
    "PORTICO_DRAIN_SECONDS": ("5", 5.0),
    "PORTICO_STOP_SECONDS": ("3", 3),
    "PORTICO_KEY_HOURS": ("48", 48),
    "PORTICO_JOBS": ("false", False),
    "PORTICO_JOB_SECONDS": ("0.5", 0.5),
    "PORTICO_SOCIAL_RATE": ("5", 5),
    "PORTICO_RENAME_RATE": ("3", 3),
    "PORTICO_NEWS_HOURS": ("1.5", 1.5),
    "PORTICO_STARTING_GOLD": ("50", 50),
    "PORTICO_IDLE_CHARACTER_HOURS": ("1.5", 1.5),
    "PORTICO_TRADE_DAYS": ("7", 7.0),
    "PORTICO_TRADE_HISTORY_DAYS": ("30.5", 30.5),
    "PORTICO_AD_SECRET": ("x" * 32, Secret("x" * 32)),
    "PORTICO_AD_CLICK_HOURS": ("1.5", 1.5),
    "PORTICO_AD_PROFILE_DAYS": ("7.5", 7.5),
    "PORTICO_LOG_DAYS": ("90", 90.0),
    "PORTICO_LOG_REQUESTS": ("0.25", 0.25),
    "PORTICO_MAX_PAGE_COUNT_EVENTS": ("5000", 5000),
    "PORTICO_HIT_ID_DAYS": ("400", 400.0),
    "PORTICO_MAX_FAN_OUT": ("100", 100),
    "PORTICO_SITE_URL": ("https://www.example.org", "https://www.example.org"),
    "PORTICO_MAX_OPERATIONS": ("5", 5),
    "PORTICO_MAX_WAITING_EVENTS": ("7", 7),
    "PORTICO_RESUME_SECONDS": ("7.5", 7.5),
    "PORTICO_MAX_LIVE_QUERIES": ("50", 50),
    "PORTICO_LIVE_PAUSE_MS": ("100", 100),
    "PORTICO_INIT_SECONDS": ("1.5", 1.5),
    "PORTICO_SEND_SECONDS": ("2", 2.0),
    "PORTICO_KEEP_ALIVE_SECONDS": ("30", 30.0),
    "PORTICO_CART_SECONDS": ("60", 60),
    "PORTICO_CART_DAYS": ("30.5", 30.5),
    "PORTICO_NOTIFICATION_DAYS": ("30.5", 30.5),
    "PORTICO_PAYMENT_URL": ("https://pay.example/v1", "https://pay.example/v1"),
    "PORTICO_PAYMENT_KEY": ("sk_live", Secret("sk_live")),
    "PORTICO_PAYMENT_SECONDS": ("2.5", 2.5),
    "PORTICO_PRODUCTION": ("true", True),
    "PORTICO_INTROSPECTION": ("false", False),
    "PORTICO_GRAPHIQL": ("off", "off"),
    "PORTICO_SHOW_PLANS": ("true", True),
    "PORTICO_DEMO": ("true", True),
    "PORTICO_LOG_LEVEL": ("warning", "warning"),
    "PORTICO_LOG_FORMAT": ("json", "json"),
}
TYPES = {name: get_type_hints(OWNERS[name])[field.name] for name, field in FIELDS.items()}
CHOICES = {name: get_args(kind) for name, kind in TYPES.items() if get_origin(kind) is Literal}
NUMBERS = [name for name, kind in TYPES.items() if kind in {int, float}]


def read(name: str, environment: dict[str, str]) -> Any:
    """The settings of the gateway or of the domain that has this setting."""
    return Settings.from_env(environment).of(OWNERS[name])


def test_without_variables_all_settings_have_their_defaults() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings.from_env({"HOME": "/", "portico_driver": "motor"}) == Settings()


@pytest.mark.parametrize("name", FIELDS)
def test_each_setting_is_read_from_its_variable(name: str) -> None:
    text, value = GOOD[name]

    found = read(name, {name: text})

    assert found == OWNERS[name](**{FIELDS[name].name: value})
    assert type(getattr(found, FIELDS[name].name)) is type(value)


@pytest.mark.parametrize("name", FIELDS)
def test_an_empty_variable_is_the_same_as_none(name: str) -> None:
    assert read(name, {name: ""}) == OWNERS[name]()


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "text", ["0", "-1", "many", "1e", "nan", "inf", "-inf", " ", "0x10", "1,000", "1e999", "9" * 5000]
)
def test_a_number_must_be_greater_than_zero(name: str, text: str) -> None:
    number = "whole number" if TYPES[name] is int else "finite number"
    with pytest.raises(SettingsError, match=rf"^{name} must be a {number} above zero; got '.+'\.$"):
        read(name, {name: text})


@pytest.mark.parametrize("name", [name for name in NUMBERS if TYPES[name] is int])
def test_a_whole_number_may_not_have_a_fraction(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name} must be"):
        read(name, {name: "1.5"})


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("text", ["other", "ON", " "])
def test_a_choice_must_be_one_of_its_options(name: str, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(name, {name: text})

    assert str(caught.value) == f"{name} must be one of {', '.join(CHOICES[name])}; got {text!r}."


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("1", True), ("yes", True), ("false", False), ("0", False)]
)
def test_a_switch_is_true_or_false(text: str, value: bool) -> None:
    assert Settings.from_env({"PORTICO_DEMO": text}).demo is value


def test_any_other_value_of_a_switch_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^PORTICO_DEMO must be true or false; got 'maybe'\.$"):
        Settings.from_env({"PORTICO_DEMO": "maybe"})


@pytest.mark.parametrize(
    "text", ["keys.json", "ftp://issuer.example/keys", "https://", "https:///keys", "issuer.example"]
)
def test_a_url_must_have_http_or_https(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^PORTICO_JWKS_URL must be a URL with http or https"):
        Settings.from_env({"PORTICO_JWKS_URL": text})


@pytest.mark.parametrize(
    ("text", "address"),
    [("localhost:9000", ("localhost", 9000)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:65535", ("::1", 65535))],  # noqa: S104 - no test listens there
)
def test_an_address_has_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    found = Settings.from_env({"PORTICO_ADMIN_ADDRESS": text}).admin_address

    assert found is not None
    assert split_address(found) == address


@pytest.mark.parametrize("text", ["9000", ":9000", "localhost", "localhost:", "a:0", "a:65536", "::1:9000", "a b:9000"])
def test_an_address_without_both_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^PORTICO_ADMIN_ADDRESS must be a host and a port, for example 127"):
        Settings.from_env({"PORTICO_ADMIN_ADDRESS": text})


@pytest.mark.parametrize("name", FIELDS)
def test_only_a_path_may_be_other_than_utf8(name: str) -> None:
    environment = {name: GOOD[name][0] + os.fsdecode(b"\xff")}
    if isinstance(GOOD[name][1], Path):
        assert bytes(read(name, environment).data_dir).endswith(b"\xff")
    else:
        with pytest.raises(SettingsError, match=rf"^{name} is not UTF-8\.$"):
            read(name, environment)


def test_a_misspelled_setting_is_reported_with_its_correction() -> None:
    environment = {"PORTICO_MAX_COSTS": "1", "PORTICO_DATABSE": "x", "PORTICO_MAX_COST": "2"}

    assert Settings.misspelt(environ=environment) == {
        "PORTICO_DATABSE": "PORTICO_DATABASE",
        "PORTICO_MAX_COSTS": "PORTICO_MAX_COST",
    }
    assert Settings.from_env(environment).max_cost == 2


def test_variables_that_a_cluster_sets_for_a_service_are_ignored() -> None:
    environment = {"PORTICO_SERVICE_HOST": "10.0.0.1", "PORTICO_PORT_8000_TCP": "tcp://10.0.0.1:8000"}

    assert Settings.misspelt(environ=environment) == {}
    assert Settings.from_env(environment) == Settings()


def test_an_error_in_a_secret_does_not_show_it() -> None:
    settings = Settings.from_env({"PORTICO_JWT_SECRET": "too short"})

    with pytest.raises(SettingsError) as caught:
        settings.signing_secret()

    assert str(caught.value) == "PORTICO_JWT_SECRET must have 32 bytes or more."


def test_the_length_of_a_secret_is_counted_in_bytes() -> None:
    settings = Settings(jwt_secret=Secret("é" * 16))

    assert settings.signing_secret() == "é" * 16


def test_with_published_keys_no_secret_is_created(tmp_path: Path) -> None:
    settings = Settings(jwks_url="https://issuer.example/keys", data_dir=tmp_path / "data")

    assert settings.signing_secret() is None
    assert not settings.data_dir.exists()


def test_a_secret_that_cannot_be_stored_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(
        SettingsError, match=r"^PORTICO_DATA_DIR: cannot read or write the secret in .*/file/secret: .+\.$"
    ):
        kept_secret(tmp_path / "file" / "secret")


@pytest.mark.parametrize(("content", "problem"), [(b"", "must have 32 bytes or more"), (b"\xff" * 40, "is not UTF-8")])
def test_an_invalid_stored_secret_is_reported(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "jwt-secret").write_bytes(content)

    with pytest.raises(SettingsError) as caught:
        Settings(data_dir=tmp_path).signing_secret()

    assert str(caught.value) == f"PORTICO_DATA_DIR: the secret in {tmp_path}/jwt-secret {problem}."


def test_every_setting_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `(PORTICO_\w+)` \| (.*?) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)

    assert sorted(rows) == sorted((name, shown(field.default), field.metadata["doc"]) for name, field in FIELDS.items())


def shown(default: object) -> str:
    """A default in the form of the documentation."""
    if default is None:
        return ""
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default}`"
