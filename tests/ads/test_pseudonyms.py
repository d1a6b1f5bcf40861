"""User ids are hashed with a secret of the deployment."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from portico.gateway.domains.ads.pseudonyms import secret_of
from portico.gateway.settings import Settings, SettingsError
from portico.resolvers.ads.pseudonyms import Pseudonyms
from portico.resolvers.ads.settings import AdsSettings
from portico.resolvers.configuration import Secret
from tests.ads.support.ads import ad, keyed, place
from tests.ads.support.serving import SERVE, pseudonym, serve, view
from tests.support.harness import GatewayClient
from tests.support.processes import environment, portico

OWN = AdsSettings(ad_secret=Secret("y" * 32))
WITH_KEYS = Settings(jwks_url="https://issuer.example/keys")


def test_equal_secrets_give_equal_pseudonyms_and_others_do_not() -> None:
    one, same, other = [Pseudonyms(secret * 32).of("robin") for secret in "xxy"]

    assert one == same != other
    assert len(one) == 64


def test_any_user_id_has_a_pseudonym_of_its_own() -> None:
    ids = ["robin", "Robin", " robin", "robin ", "é", "e\u0301", "\ud800", "$ne", "x" * 1_000]

    assert len({Pseudonyms("x" * 32).of(user) for user in ids}) == len(ids)


def test_the_setting_is_the_secret() -> None:
    assert secret_of(Settings(), OWN) == "y" * 32


def test_without_the_setting_the_secret_is_derived_from_that_of_tokens() -> None:
    one, same, other = [secret_of(Settings(jwt_secret=Secret(key * 32)), AdsSettings()) for key in "xxz"]

    assert one == same != other
    assert "x" * 32 not in one


def test_without_any_secret_one_is_generated_and_kept(tmp_path: Path) -> None:
    settings = replace(WITH_KEYS, data_dir=tmp_path)

    found = [secret_of(settings, AdsSettings()) for _ in range(2)]

    assert found[0] == found[1]
    assert len(found[0]) >= 32


def test_in_production_no_secret_is_generated(tmp_path: Path) -> None:
    settings = replace(WITH_KEYS, data_dir=tmp_path, production=True)

    with pytest.raises(SettingsError, match=r"^PORTICO_AD_SECRET must be set, because PORTICO_PRODUCTION is true"):
        secret_of(settings, AdsSettings())

    assert list(tmp_path.iterdir()) == []
    assert secret_of(settings, OWN) == "y" * 32


def test_a_gateway_with_a_short_secret_ends_at_once_with_one_line(settings: Settings) -> None:
    done = portico("serve", env=environment(settings, PORTICO_AD_SECRET="too short"))

    assert (done.returncode, done.stderr) == (1, "portico: PORTICO_AD_SECRET must have 32 bytes or more.\n")


async def test_the_user_of_a_repeatable_call_cannot_be_guessed_from_its_record(gateway: GatewayClient) -> None:
    await place(gateway, ad())
    given = keyed(**view())
    await serve(gateway, given)

    record = await gateway.db["operations"].find_one({"field": "serve_ads"})

    def guess(user: str) -> str:
        fields = {"site_id": given["siteId"], "zone_id": given["zoneId"], "user_id": user}
        written = {"input": {**fields, "idempotency_key": given["idempotencyKey"]}}
        return hashlib.sha256(orjson.dumps(written, option=orjson.OPT_SORT_KEYS)).hexdigest()

    assert record is not None
    assert record["fingerprint"] != guess("robin")
    assert record["fingerprint"] == guess(pseudonym(gateway))


@pytest.mark.parametrize(("user", "code"), [("robin", None), ("kim", "IDEMPOTENCY_KEY_REUSED")])
async def test_a_key_belongs_to_one_user(gateway: GatewayClient, user: str, code: str | None) -> None:
    given = keyed(**view())
    await serve(gateway, given)

    answer = await gateway.ask(SERVE, {"input": {**given, "userId": user}}, token=None)

    assert [one["extensions"]["code"] for one in answer.body.get("errors", [])] == ([code] if code else [])
