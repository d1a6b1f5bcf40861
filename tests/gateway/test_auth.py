"""Authentication: bearer tokens, and the error for each kind of bad token."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import jwt
import pytest

from portico.gateway import auth
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.logs import configure
from portico.gateway.settings import Settings, SettingsError
from portico.resolvers.configuration import Secret
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.roles import Role
from tests.support.harness import SECRET, GatewayClient, category_input, running

VIEWER = "{ viewer { subject roles } }"
OTHER_SECRET = "another secret, which is also long enough to be one"


def signed(key: str = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **changes: Any) -> str:
    """A valid token with these changes. None removes a claim."""
    claims = {"sub": "tester", "aud": "portico", "exp": int(time.time()) + 60, "roles": ["MERCHANT"], **changes}
    given = {name: value for name, value in claims.items() if value is not None}
    # Skips the library's checks of the claims.
    return jwt.PyJWS().encode(json.dumps(given).encode(), key, algorithm=algorithm, headers=headers)


async def view(gateway: GatewayClient, authorization: str | None, query: str = VIEWER) -> httpx.Response:
    headers = {} if authorization is None else {"authorization": authorization}
    return await gateway.http.post("/graphql", json={"query": query}, headers=headers)


def assert_unauthenticated(response: httpx.Response, message: str) -> None:
    assert response.status_code == 401, response.text
    # A client that sent no token gets no error in the challenge (RFC 6750, section 3.1).
    has_token = not message.startswith("The Authorization header")
    about = f', error="invalid_token", error_description="{message}"' if has_token else ""
    assert response.headers["www-authenticate"] == f'Bearer realm="portico"{about}'
    code = "TOKEN_EXPIRED" if message == EXPIRED else "UNAUTHENTICATED"
    assert response.json() == {"errors": [{"message": message, "extensions": {"code": code}}]}


async def test_the_viewer_has_the_subject_and_the_roles_of_the_token(reader: GatewayClient) -> None:
    response = await view(reader, f"Bearer {signed(sub='Ann', roles=['EDITOR', 'MERCHANT'])}")

    assert response.json() == {"data": {"viewer": {"subject": "Ann", "roles": ["EDITOR", "MERCHANT"]}}}


async def test_a_name_with_a_lone_surrogate_is_shown_without_it(reader: GatewayClient) -> None:
    caller: Any = await Authenticator(reader.settings).authenticate("Bearer " + signed(name="Ann \ud83d"))

    assert (caller.subject, caller.name) == ("tester", "Ann ?")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("  Ann \t Lee ", "Ann Lee"),
        ("Ann\r\nLee\u2028!", "Ann Lee !"),
        ("Ann\0\x07\x1b[31m", "Ann[31m"),
        ("\u202eninda\u2066", "ninda"),
        ("Zoe" + 9 * "\u0301", "Zoe"),
        ("Zoe\u0301, \u05d0\u05e0\u05d4", "Zoe\u0301, \u05d0\u05e0\u05d4"),
        ("\u200b\u2060", ""),
        (250 * "x", 200 * "x"),
        (["Ann"], ""),
    ],
)
async def test_a_name_cannot_disturb_the_text_around_it(reader: GatewayClient, name: Any, shown: str) -> None:
    caller: Any = await Authenticator(reader.settings).authenticate("Bearer " + signed(name=name))

    assert caller.name == shown
    assert caller.author == {"id": "tester", "name": shown or "tester"}


@pytest.mark.parametrize("subject", ["", " ", "\udcff", "ann\0"])
def test_the_gateway_issues_no_token_that_it_would_refuse(settings: Settings, subject: str) -> None:
    with pytest.raises(auth.InvalidToken, match="subject"):
        Authenticator(settings).issue(subject, [], now=SystemClock().now(), lasts=timedelta(days=1))


@pytest.mark.parametrize(
    ("roles", "logged"),
    [
        (["MERCHANT", "PIRATE", "PIRATE", 7], "[\"'PIRATE'\", '7']"),
        ("MERCHANT", "[\"'MERCHANT'\"]"),
        ({"MERCHANT": True}, "[\"{'MERCHANT': True}\"]"),
    ],
)
async def test_unknown_roles_grant_nothing_and_are_logged_once(
    gateway: GatewayClient, settings: Settings, capfd: pytest.CaptureFixture[str], roles: Any, logged: str
) -> None:
    configure(replace(settings, log_level="info"))
    for subject in ("Ann", "Bob"):
        response = await view(gateway, f"Bearer {signed(sub=subject, roles=roles)}")
        granted = ["MERCHANT"] if isinstance(roles, list) else []
        assert response.json() == {"data": {"viewer": {"subject": subject, "roles": granted}}}

    configure(settings)
    lines = [line for line in "".join(capfd.readouterr()).splitlines() if "unknown roles" in line]
    assert len(lines) == 1, lines
    assert f"roles={logged}" in lines[0]


async def test_without_a_token_there_is_no_viewer(reader: GatewayClient) -> None:
    assert (await view(reader, None)).json() == {"data": {"viewer": None}}


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER   {}", "  Bearer {}  "])
async def test_the_scheme_may_be_written_in_any_case(reader: GatewayClient, form: str) -> None:
    response = await view(reader, form.format(signed()))

    assert response.json()["data"]["viewer"]["subject"] == "tester"


@pytest.mark.parametrize("roles", [None, [], "ADMIN", {"ADMIN": True}, ["EMPEROR", "admin", 1, None, ["ADMIN"], {}], 7])
async def test_unknown_roles_are_ignored(reader: GatewayClient, roles: Any) -> None:
    response = await view(reader, f"Bearer {signed(roles=roles)}")

    assert response.json() == {"data": {"viewer": {"subject": "tester", "roles": []}}}


async def test_a_token_may_name_several_audiences(reader: GatewayClient) -> None:
    assert (await view(reader, f"Bearer {signed(aud=['other', 'portico'])}")).status_code == 200


async def test_a_token_is_accepted_for_a_moment_after_it_expires(reader: GatewayClient) -> None:
    assert (await view(reader, f"Bearer {signed(exp=int(time.time()) - 5)}")).status_code == 200


ALGORITHM = "The token's algorithm is not accepted."
SIGNATURE = "The token's signature does not match."
EXPIRED = "The token has expired."
INCOMPLETE = "The token lacks a claim: exp, sub and aud are required."
AUDIENCE = "The token is for another audience."
EARLY = "The token is not valid yet."
UNREADABLE = "The token cannot be read."
INVALID = "The token is not valid."
EMPTY = "The token's subject is empty."
NO_TEXT = "The token's subject is no valid Unicode text."
NO_LINE = "The token's subject has a control character or a line break."

BAD_TOKENS: dict[str, tuple[Callable[[], str], str]] = {
    "unsigned": (lambda: signed("", "none"), ALGORITHM),
    "unsigned, with a signature": (lambda: signed("", "none") + "eHg", ALGORITHM),
    "another algorithm": (lambda: signed(SECRET * 2, "HS512"), ALGORITHM),
    "another key": (lambda: signed(OTHER_SECRET), SIGNATURE),
    "a truncated signature": (lambda: signed()[:-3], SIGNATURE),
    "without its signature": (lambda: signed().rpartition(".")[0] + ".", SIGNATURE),
    "expired": (lambda: signed(exp=time.time() - 3600), EXPIRED),
    "no exp": (lambda: signed(exp=None), INCOMPLETE),
    "no sub": (lambda: signed(sub=None), INCOMPLETE),
    "no aud": (lambda: signed(aud=None), INCOMPLETE),
    "another audience": (lambda: signed(aud="other"), AUDIENCE),
    "other audiences": (lambda: signed(aud=["other", "another"]), AUDIENCE),
    "an audience that is not text": (lambda: signed(aud=7), AUDIENCE),
    "not before tomorrow": (lambda: signed(nbf=time.time() + 86_400), EARLY),
    "issued tomorrow": (lambda: signed(iat=time.time() + 86_400), EARLY),
    "an exp that is not a number": (lambda: signed(exp="tomorrow"), UNREADABLE),
    "a sub that is a number": (lambda: signed(sub=7), INVALID),
    "a sub that is a list": (lambda: signed(sub=["tester"]), INVALID),
    "an empty sub": (lambda: signed(sub=""), EMPTY),
    "a blank sub": (lambda: signed(sub=" \t\n"), EMPTY),
    "a sub with a lone surrogate": (lambda: signed(sub="ann\ud800"), NO_TEXT),
    "a sub with NUL": (lambda: signed(sub="ann\0lee"), NO_LINE),
    "a sub with a line break": (lambda: signed(sub="ann\nlee"), NO_LINE),
    "a sub that turns the text around": (lambda: signed(sub="\u202eann"), NO_LINE),
    "an exp that is too large": (lambda: signed(exp=10**400), UNREADABLE),
    "no token": (lambda: "nonsense", UNREADABLE),
    "three parts": (lambda: "a.b.c", UNREADABLE),
    "many parts": (lambda: "....", UNREADABLE),
    "control characters": (lambda: "\x7f\x01", UNREADABLE),
    "very long": (lambda: "x" * 10_000, UNREADABLE),
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
async def test_a_bad_token_is_refused_with_its_reason(reader: GatewayClient, kind: str) -> None:
    token, message = BAD_TOKENS[kind]

    assert_unauthenticated(await view(reader, f"Bearer {token()}"), message)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic dGVzdA==", "Token {}", "{}", "Bearer: {}", "Bearer,{}"]
)
async def test_a_header_of_another_form_is_refused(reader: GatewayClient, header: str) -> None:
    response = await view(reader, header.format(signed()))

    assert_unauthenticated(response, "The Authorization header must be `Bearer`, then a space and a token.")


async def test_a_header_with_two_tokens_is_refused(reader: GatewayClient) -> None:
    assert (await view(reader, f"Bearer {signed()} {signed()}")).status_code == 401


async def test_an_altered_token_is_refused(reader: GatewayClient) -> None:
    head, claims, signature = signed().split(".")
    changed = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"sub": "somebody else"}
    forged = base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode()

    assert_unauthenticated(await view(reader, f"Bearer {head}.{forged}.{signature}"), SIGNATURE)


async def test_tokens_must_come_from_the_configured_issuer(settings: Settings) -> None:
    async with running(replace(settings, jwt_issuer="https://issuer.example")) as gateway:
        assert (await view(gateway, f"Bearer {signed(iss='https://issuer.example')}")).status_code == 200
        assert (await view(gateway, f"Bearer {gateway.token()}")).status_code == 200

        other = await view(gateway, f"Bearer {signed(iss='https://other.example')}")
        missing = await view(gateway, f"Bearer {signed()}")

    assert_unauthenticated(other, "The token is from another issuer.")
    assert_unauthenticated(missing, INCOMPLETE)


async def test_a_bad_token_is_refused_even_for_public_data(reader: GatewayClient) -> None:
    assert (await view(reader, "Bearer nonsense", "{ products { nodes { sku } } }")).status_code == 401


async def test_writing_needs_a_token_with_the_role(gateway: GatewayClient) -> None:
    create = "mutation ($input: CreateCategoryInput!) { createCategory(input: $input) { __typename } }"
    given = {"input": category_input()}

    for token, code in ((None, "UNAUTHENTICATED"), (gateway.token(roles=[Role.EDITOR]), "FORBIDDEN")):
        refused = await gateway.ask(create, given, token=token)
        assert (refused.codes, refused.body["data"]) == ([code], {"createCategory": None})
    for role, allowed in ((MERCHANT, given), (Role.ADMIN, {"input": category_input()})):
        answer = await gateway.data(create, allowed, token=gateway.token(roles=[role]))
        assert answer == {"createCategory": {"__typename": "CategoryPayload"}}


async def test_a_remembered_token_is_good_only_until_it_expires(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    token = signed(exp=now + 60)

    first = await view(gateway, f"Bearer {token}")
    # An hour later. The library that checks a token looks at the clock of the machine.
    monkeypatch.setattr(auth, "time", SimpleNamespace(time=lambda: now + 3600))
    monkeypatch.setattr(auth, "_LEEWAY_SECONDS", -3600)
    later = await view(gateway, f"Bearer {token}")

    assert first.status_code == 200
    assert_unauthenticated(later, EXPIRED)


async def test_the_gateway_remembers_a_limited_number_of_tokens_for_a_limited_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "_KEPT_TOKENS", 1_000)
    authenticator = Authenticator(settings)
    for number in range(1_100):
        await authenticator.authenticate(f"Bearer {signed(sub=f'caller {number}', exp=time.time() + 86_400)}")

    remembered = [found for found in map(authenticator._good.get, list(authenticator._good)) if found is not None]

    assert len(remembered) == 1_000
    assert getattr(remembered[0].caller, "subject", None) == "caller 100"
    assert max(identity.good_until for identity in remembered) <= time.time() + 300


def test_a_secret_that_is_too_short_is_refused(settings: Settings) -> None:
    with pytest.raises(SettingsError, match=r"^PORTICO_JWT_SECRET must have 32 bytes or more\.$"):
        Authenticator(replace(settings, jwt_secret=Secret("x" * 31)))


def test_without_a_secret_the_gateway_creates_one_that_only_its_owner_can_read(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "new")

    first, second = settings.signing_secret(), settings.signing_secret()

    kept = tmp_path / "new" / "jwt-secret"
    assert first == second == kept.read_text()
    assert len(str(first)) >= 64
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in kept.parent.iterdir()] == ["jwt-secret"]


def test_printed_settings_do_not_show_secrets(settings: Settings) -> None:
    shown = replace(settings, mongodb_uri=Secret("mongodb://user:password@host/"), jwt_secret=Secret(OTHER_SECRET))

    for text in (repr(shown), str(shown), f"{shown}", repr(Authenticator(shown)._settings)):
        assert OTHER_SECRET not in text
        assert "password" not in text


async def test_logs_do_not_show_tokens(settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    loud = replace(settings, log_level="debug")
    async with running(loud) as gateway:
        token, bad = gateway.token(), signed(OTHER_SECRET)
        await view(gateway, f"Bearer {token}")
        await view(gateway, f"Bearer {bad}")
        gateway.state.authenticator._good.clear()
        gateway.state.authenticator._secret = None
        await view(gateway, f"Bearer {token}")
    configure(settings)

    written = "".join(capfd.readouterr())
    assert "started" in written
    for secret in (token, bad, SECRET):
        assert str(secret) not in written


def test_the_gateway_issues_no_tokens_if_an_outside_issuer_does(settings: Settings) -> None:
    authenticator = Authenticator(replace(settings, jwt_secret=None, jwks_url="https://issuer.example/keys"))

    with pytest.raises(auth.InvalidToken, match="PORTICO_JWKS_URL"):
        authenticator.issue("a", [], now=SystemClock().now(), lasts=timedelta(hours=1))
