"""Tokens of an outside issuer, verified with the public keys that it publishes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from portico.gateway import jwks
from portico.gateway.auth import Authenticator, InvalidToken, KeysUnavailable
from portico.gateway.settings import Settings
from portico.resolvers.ads.settings import AdsSettings
from portico.schema.context import Caller
from portico.schema.roles import Role
from tests.support.harness import SECRET, running, with_settings

URL = "https://issuer.example/keys"
ALGORITHM = "The token's algorithm is not accepted."
SIGNATURE = "The token's signature does not match."
VIEWER = "{ viewer { subject } }"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    assert number >= 0
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


class Watch:
    """What the gateway measures the age of its keys with. It stands still until the test advances it."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()
    monkeypatch.setattr(jwks, "time", found)
    return found


class Issuer:
    """An outside issuer: the keys that it publishes, and the number of requests for them."""

    def __init__(self, **keys: PrivateKey) -> None:
        self.keys = keys
        self.asked = 0
        self.answer: httpx.Response | Exception | None = None

    def published(self) -> dict[str, Any]:
        return {"keys": [_jwk(key) | {"kid": name, "use": "sig"} for name, key in self.keys.items()]}

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        assert str(request.url) == URL
        self.asked += 1
        # Long enough for concurrent requests.
        await asyncio.sleep(0.01)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or httpx.Response(200, json=self.published())

    def trusted(self, **changes: Any) -> Authenticator:
        """An authenticator that trusts this issuer."""
        return Authenticator(Settings(**{"jwks_url": URL, **changes}), httpx.MockTransport(self))


def _jwk(key: PrivateKey) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPrivateKey):
        return RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return ECAlgorithm.to_jwk(key.public_key(), as_dict=True)


def token(key: PrivateKey | str, algorithm: str, key_id: str | None, **claims: Any) -> str:
    given = {"sub": "tester", "aud": "portico", "exp": time.time() + 60, "roles": ["EDITOR"], **claims}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(given, key, algorithm=algorithm, headers=headers)


def forged(secret: bytes, key_id: str | None) -> str:
    """A token with an HMAC signature by any bytes. A library would refuse these bytes as a secret."""
    header = {"alg": "HS256", "typ": "JWT"} | ({} if key_id is None else {"kid": key_id})
    claims = {"sub": "tester", "aud": "portico", "exp": time.time() + 60, "roles": ["ADMIN"]}
    parts = [_encoded(json.dumps(part).encode()) for part in (header, claims)]
    return ".".join([*parts, _encoded(hmac.digest(secret, ".".join(parts).encode(), hashlib.sha256))])


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def first_token(**claims: Any) -> str:
    """A token by the key that the issuer publishes as `first`."""
    return token(rsa_key(1), "RS256", "first", **claims)


async def caller_of(authenticator: Authenticator, sent: str) -> Caller:
    caller = await authenticator.authenticate(f"Bearer {sent}")
    assert caller is not None
    return caller


async def refusal(authenticator: Authenticator, sent: str) -> str:
    with pytest.raises(InvalidToken) as caught:
        await authenticator.authenticate(f"Bearer {sent}")
    return str(caught.value)


async def test_a_token_is_verified_with_the_published_key_that_it_names() -> None:
    issuer = Issuer(first=rsa_key(1), second=ec_key())
    authenticator = issuer.trusted()

    by_rsa = await caller_of(authenticator, first_token(sub="Ann"))
    by_ec = await caller_of(authenticator, token(ec_key(), "ES256", "second", sub="Bob"))

    assert (by_rsa.subject, by_ec.subject) == ("Ann", "Bob")
    assert by_rsa.roles == {Role.EDITOR}
    assert issuer.asked == 1


@pytest.mark.parametrize(
    ("key_id", "text"),
    [(None, SIGNATURE), ("first", ALGORITHM)],
)
async def test_a_public_key_is_not_accepted_as_an_hmac_secret(key_id: str | None, text: str) -> None:
    issuer = Issuer(first=rsa_key(1))
    public = rsa_key(1).public_key()
    spellings = [
        *(public.public_bytes(one, PublicFormat.SubjectPublicKeyInfo) for one in (Encoding.PEM, Encoding.DER)),
        json.dumps(_jwk(rsa_key(1))).encode(),
        b"",
        b"None",
    ]

    messages = [await refusal(issuer.trusted(), forged(secret, key_id)) for secret in spellings]

    assert set(messages) == {text}


async def test_the_token_does_not_choose_its_algorithm() -> None:
    issuer = Issuer(first=rsa_key(1), second=ec_key())
    authenticator = issuer.trusted()

    for sent in (*(token(rsa_key(1), name, "first") for name in ("RS512", "PS256")), token("", "none", "first")):
        assert await refusal(authenticator, sent) == ALGORITHM
    assert await refusal(authenticator, token(rsa_key(2), "RS256", "first")) == SIGNATURE
    await refusal(authenticator, token(rsa_key(1), "RS256", "second"))
    await refusal(authenticator, token(ec_key(), "ES256", "first"))


async def test_a_token_without_a_key_id_or_with_an_unknown_one_is_refused() -> None:
    authenticator = Issuer(first=rsa_key(1)).trusted()

    for key_id in (None, "", "second", "../first"):
        message = await refusal(authenticator, token(rsa_key(1), "RS256", key_id))
        assert message == SIGNATURE


async def test_with_published_keys_a_secret_verifies_only_tokens_without_a_key_id() -> None:
    authenticator = Issuer(first=rsa_key(1)).trusted(jwt_secret=SECRET)

    assert await caller_of(authenticator, token(SECRET, "HS256", None))
    assert await caller_of(authenticator, first_token())
    assert await refusal(authenticator, token(SECRET, "HS256", "first")) == ALGORITHM
    assert await refusal(authenticator, token(rsa_key(1), "RS256", None)) == ALGORITHM


async def test_claims_are_checked_as_for_other_tokens() -> None:
    authenticator = Issuer(first=rsa_key(1)).trusted(jwt_issuer="https://issuer.example")

    for claims in ({"iss": "https://other.example"}, {}, {"iss": "https://issuer.example", "aud": "other"}):
        await refusal(authenticator, first_token(**claims))
    assert await caller_of(authenticator, first_token(iss="https://issuer.example"))


async def test_an_unknown_key_id_reloads_the_keys_at_most_once_per_pause(watch: Watch) -> None:
    # given an issuer whose first key is known
    issuer = Issuer(first=rsa_key(1))
    authenticator = issuer.trusted()
    await caller_of(authenticator, first_token())

    # when the issuer changes its key, nothing is read within the pause
    issuer.keys = {"second": rsa_key(2)}
    for _ in range(5):
        await refusal(authenticator, token(rsa_key(2), "RS256", "second"))
        watch.seconds += 1.9
    assert issuer.asked == 1

    # then the first token after the pause loads the new key, and the old key is no longer accepted
    watch.seconds += 1
    assert await caller_of(authenticator, token(rsa_key(2), "RS256", "second"))
    await refusal(authenticator, first_token(sub="another"))
    assert issuer.asked == 2


@pytest.mark.usefixtures("watch")
async def test_concurrent_callers_read_the_keys_once() -> None:
    issuer = Issuer(first=rsa_key(1))
    authenticator = issuer.trusted()
    sent = [first_token(sub=f"caller {number}") for number in range(20)]
    sent += [token(rsa_key(2), "RS256", f"unknown {number}") for number in range(20)]

    answers = await asyncio.gather(
        *(authenticator.authenticate(f"Bearer {one}") for one in sent), return_exceptions=True
    )

    assert [type(answer).__name__ for answer in answers] == ["Caller"] * 20 + ["InvalidToken"] * 20
    assert issuer.asked == 1


async def test_keys_are_read_again_after_a_while(watch: Watch) -> None:
    issuer = Issuer(first=rsa_key(1))
    authenticator = issuer.trusted()
    for _ in range(2):
        await caller_of(authenticator, first_token())
    assert issuer.asked == 1

    for caller, asked in (("another", 1), ("one more", 2)):
        watch.seconds += 151
        await caller_of(authenticator, first_token(sub=caller))

        assert issuer.asked == asked


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.Response(500),
        httpx.Response(302, headers={"location": URL}),
        httpx.Response(200, content=b""),
        httpx.Response(200, content=b"<!doctype html>"),
        httpx.Response(200, content=b"\xff\xfe"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json="keys"),
        httpx.Response(200, json={}),
        httpx.Response(200, json={"keys": 1}),
        httpx.Response(200, json={"keys": []}),
        httpx.Response(200, json={"keys": [1, None]}),
        httpx.Response(200, json={"keys": [{"kty": "RSA", "kid": "first"}]}),
    ],
    ids=repr,
)
@pytest.mark.usefixtures("watch")
async def test_without_keys_no_token_can_be_verified(answer: httpx.Response | Exception) -> None:
    issuer = Issuer(first=rsa_key(1))
    issuer.answer = answer
    authenticator = issuer.trusted()

    for _ in range(3):
        with pytest.raises(KeysUnavailable):
            await caller_of(authenticator, first_token())

    assert issuer.asked == 1


async def test_a_failed_read_of_the_keys_is_retried_soon(watch: Watch) -> None:
    issuer = Issuer(first=rsa_key(1))
    issuer.answer = httpx.Response(503)
    authenticator = issuer.trusted()
    with pytest.raises(KeysUnavailable):
        await caller_of(authenticator, first_token())

    issuer.answer = None
    watch.seconds += 1.1

    assert await caller_of(authenticator, first_token())


async def test_known_keys_stay_valid_while_the_issuer_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "_JWKS_PAUSE", 0.0)
    monkeypatch.setattr(jwks, "_JWKS_SECONDS", 0.0)
    issuer = Issuer(first=rsa_key(1))
    authenticator = issuer.trusted()
    await caller_of(authenticator, first_token())

    issuer.answer = httpx.ConnectError("gone")
    again = await caller_of(authenticator, first_token(sub="another"))

    assert again.subject == "another"
    assert issuer.asked == 2
    await refusal(authenticator, token(rsa_key(2), "RS256", "second"))


@pytest.fixture
def published(tmp_path: Path) -> Iterator[str]:
    """The address of a server that publishes the keys of an issuer."""
    (tmp_path / "keys.json").write_text(json.dumps(Issuer(first=rsa_key(1)).published()))
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/keys.json"
        server.shutdown()
        thread.join()


async def test_a_gateway_accepts_the_tokens_of_an_issuer_on_the_network(
    settings: Settings, published: str, tmp_path: Path
) -> None:
    own = with_settings(settings, AdsSettings, ad_secret=SECRET)
    chosen = replace(own, jwks_url=published, jwt_secret=None, data_dir=tmp_path / "none")
    async with running(chosen) as gateway:
        good = await gateway.ask(VIEWER, token=first_token())
        bad = await gateway.ask(VIEWER, token=token(rsa_key(2), "RS256", "first"))

    assert good.data == {"viewer": {"subject": "tester"}}
    assert (bad.status, bad.codes) == (401, ["UNAUTHENTICATED"])
    assert not (tmp_path / "none").exists()


async def test_while_the_issuer_is_unreachable_tokens_get_503_and_anonymous_requests_are_served(
    settings: Settings, closed_port: int
) -> None:
    chosen = replace(settings, jwks_url=f"http://127.0.0.1:{closed_port}/keys", jwt_secret=None)
    async with running(chosen) as gateway:
        with_token = await gateway.ask(VIEWER, token=first_token())
        without = await gateway.ask(VIEWER, token=None)

    assert (with_token.status, with_token.codes) == (503, ["UNAVAILABLE"])
    assert without.data == {"viewer": None}
