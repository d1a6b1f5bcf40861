"""The payment service for tests, as served by `portico payment-service`."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.payments.tokens import TOKENS
from tests.shop.support.payment_service import PaymentService
from tests.support.processes import Process, environment, eventually, portico, started

HELP = re.compile(r"^  +([a-z-]+) +(\S.*)$", re.MULTILINE)


async def charged(service: PaymentService, token: str, key: str = "key", **fields: Any) -> httpx.Response:
    body = {"amount": 100, "currency": "USD", "token": token, **fields}
    async with httpx.AsyncClient() as client:
        return await client.post(f"{service.url}/charges", json=body, headers={"idempotency-key": key}, timeout=5)


@pytest.mark.parametrize("token", ["accept", "pending", "garbled", "hang", "hang-late", "drop", "die"])
async def test_each_token_that_pays_is_charged_once_after_its_delay(token: str, service: PaymentService) -> None:
    service.is_back = True
    if token == "die":
        for _ in range(2):
            with pytest.raises(httpx.RemoteProtocolError):
                await charged(service, token)
        service.dead.clear()

    answers = [(await charged(service, token)).json() for _ in range(2)]

    assert answers == [{"status": "charged", "id": "ch-1", "amount": 100}] * 2
    assert service.taken() == [("key", 100)]


async def test_a_declined_charge_stays_declined_for_any_retry_of_its_key(service: PaymentService) -> None:
    answers = [await charged(service, token) for token in ("decline", "accept", "nonsense")]

    assert [(one.status_code, one.json()["message"]) for one in answers] == [(402, "The card has expired.")] * 3
    assert service.taken() == []


async def test_an_unknown_token_is_declined_with_a_list_of_the_known_ones(service: PaymentService) -> None:
    answer = await charged(service, "tok_visa")

    assert (answer.status_code, answer.json()["status"]) == (402, "declined")
    assert all(token in answer.json()["message"] for token in TOKENS)


async def test_a_refund_gives_back_what_was_taken_once(service: PaymentService) -> None:
    async with httpx.AsyncClient() as client:
        charge = (await charged(service, "accept")).json()
        body = {"charge": charge["id"], "amount": charge["amount"], "currency": "USD"}

        async def refund(key: str) -> httpx.Response:
            return await client.post(f"{service.url}/refunds", json=body, headers={"idempotency-key": key})

        first, again, other = await refund("one"), await refund("one"), await refund("other")
        found = await client.get(f"{service.url}/refunds/one")

    assert (first.status_code, first.json()["status"]) == (200, "refunded")
    assert first.json() == again.json() == found.json()
    assert (other.status_code, other.json()["status"]) == (402, "declined")


async def test_an_invalid_request_is_refused_and_creates_no_charge(service: PaymentService) -> None:
    async with httpx.AsyncClient() as client:
        wrong = [
            await client.post(f"{service.url}/charges", content=content, headers=headers)
            for content, headers in [
                (b"{", {"idempotency-key": "key"}),
                (b"[]", {"idempotency-key": "key"}),
                (b"{}", {"idempotency-key": "key"}),
                (b'{"amount": 1, "currency": "USD", "token": "accept"}', {}),
                (b'{"amount": null, "currency": "USD", "token": "accept"}', {"idempotency-key": "key"}),
            ]
        ]
        nowhere = [await client.get(f"{service.url}/charges/key"), await client.post(f"{service.url}/payouts")]

    assert [answer.status_code for answer in wrong] == [400] * 5
    assert [answer.status_code for answer in nowhere] == [404] * 2
    assert service.outcomes == {}


def url_of(process: Process) -> str:
    return str(eventually(lambda: re.search(r"PORTICO_PAYMENT_URL=(http://\S+)", process.output))[1])


def test_a_restarted_service_remembers_its_charges(tmp_path: Path) -> None:
    command = ("payment-service", "--port", "0", "--file", str(tmp_path / "charges.jsonl"))
    body = {"amount": 100, "currency": "USD", "token": "die"}
    asked = {"json": body, "headers": {"idempotency-key": "key"}}
    with started(tmp_path / "first", environment(), *command) as process:
        url = url_of(process)
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{url}/charges", **asked)  # type: ignore[arg-type]
        status = process.wait()
        first = process
    with started(tmp_path / "second", environment(), *command) as process:
        url = url_of(process)
        known, again = httpx.get(f"{url}/charges/key"), httpx.post(f"{url}/charges", **asked)  # type: ignore[arg-type]
        process.terminate()
        ended = process.wait()

    assert (status, ended) == (1, 0)
    assert url.startswith("http://127.0.0.1:")
    assert first.errors == "portico: the token `die` stopped the payment service. Start it again.\n"
    assert "charge of 100 USD with the token die\n  outcome: charged ch-1\n" in first.output
    assert known.json() == again.json() == {"status": "charged", "id": "ch-1", "amount": 100}
    assert process.errors == ""


def test_the_help_of_the_command_describes_each_token() -> None:
    answers = portico("payment-service", "--help").stdout

    assert dict(HELP.findall(answers)).items() >= TOKENS.items()


def test_a_file_with_other_content_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "products.jsonl"
    file.write_text('{"sku": "LP-0001"}\n')

    done = portico("payment-service", "--port", "0", "--file", str(file))

    assert (done.returncode, done.stderr) == (1, f"portico: {file} is not a file of charges: a line is not a charge\n")


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        done = portico("payment-service", "--port", str(port))

    assert done.stderr == f"portico: cannot listen on 127.0.0.1:{port}: Address already in use.\n"
