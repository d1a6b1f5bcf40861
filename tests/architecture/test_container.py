"""The container image and the composition: their settings exist, and they run without root and without writing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from portico.gateway import production
from portico.gateway.settings import PREFIX, Settings, declared, split_address
from tests.support.domains import DOMAINS

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
GATEWAY: dict[str, Any] = COMPOSE["services"]["gateway"]
MONGODS = ["mongo1", "mongo2", "mongo3"]
KINDS = [Settings, *(domain.settings for domain in DOMAINS.all if domain.settings is not None)]
KNOWN = {variable for kind in KINDS for variable, _ in declared(kind)}


def instructions(name: str) -> list[str]:
    """The arguments of each instruction with this name, on one line each."""
    joined = re.sub(r"\\\n\s*", "", DOCKERFILE)
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in instructions("ENV") for pair in line.split())


def gateway_environment() -> dict[str, str]:
    """The environment of the gateway of the composition. A variable of the caller has a value that is long enough."""
    given = {name: re.sub(r"\$\{.*\}", "x" * 32, str(value)) for name, value in GATEWAY["environment"].items()}
    return {**image_environment(), **given}


def test_every_setting_of_the_image_and_the_composition_exists() -> None:
    given = [name for name in gateway_environment() if name.startswith(PREFIX)]

    assert given
    assert set(given) <= KNOWN


def test_the_composition_is_fit_for_production() -> None:
    settings = Settings.from_env(gateway_environment())

    production.require(settings)
    assert settings.production


def test_the_secret_comes_from_the_caller_and_is_in_no_file() -> None:
    assert re.fullmatch(r"\$\{PORTICO_JWT_SECRET:\?.+\}", GATEWAY["environment"]["PORTICO_JWT_SECRET"])
    assert not {"PORTICO_JWT_SECRET", "PORTICO_MONGODB_URI", "PORTICO_PAYMENT_KEY"} & image_environment().keys()


def test_the_image_runs_without_root_and_contains_no_tools_for_its_build() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]

    assert len(instructions("FROM")) == 2
    assert re.search(r"^USER (\d+)$", final, re.MULTILINE)
    assert [line for line in final.splitlines() if line.startswith("COPY")] == [
        "COPY --from=build /opt/portico /opt/portico"
    ]


def test_every_file_that_the_image_copies_exists_and_is_sent_to_the_build() -> None:
    allowed = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = [name for line in instructions("COPY") if "--from" not in line for name in line.split()[:-1]]

    assert sorted(copied) == sorted(allowed)
    assert all((ROOT / name).exists() for name in copied)


def test_the_gateway_cannot_write_to_its_file_system_or_gain_privileges() -> None:
    assert GATEWAY["read_only"] is True
    assert GATEWAY["cap_drop"] == ["ALL"]
    assert GATEWAY["security_opt"] == ["no-new-privileges:true"]


def test_the_gateway_has_time_to_stop() -> None:
    settings = Settings.from_env(gateway_environment())
    grace = int(GATEWAY["stop_grace_period"].removesuffix("s"))

    assert grace >= settings.drain_seconds + settings.stop_seconds + 4


def test_the_published_ports_are_those_that_the_gateway_listens_on() -> None:
    command = json.loads(instructions("CMD")[-1])
    served = command[command.index("--port") + 1]
    address = Settings.from_env(gateway_environment()).admin_address
    assert address is not None
    admin = str(split_address(address)[1])

    assert instructions("EXPOSE") == [f"{served} {admin}"]
    assert [port.split(":")[-1] for port in GATEWAY["ports"]] == [served, admin]
    assert GATEWAY["ports"][1].startswith("127.0.0.1:")


def test_the_health_check_asks_whether_the_process_lives() -> None:
    (check,) = instructions("HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])

    assert command[0] == "python"
    compile(command[2], "health check", "exec")
    assert "127.0.0.1:8000/livez" in command[2]


def test_the_gateway_starts_when_the_replica_set_of_the_three_servers_is_ready() -> None:
    setup = COMPOSE["services"]["mongo-setup"]
    members = re.findall(r'host: "([^":]+):27017"', setup["command"][-1])
    uri = gateway_environment()["PORTICO_MONGODB_URI"]

    assert members == MONGODS == list(setup["depends_on"])
    assert uri == f"mongodb://{','.join(MONGODS)}/?replicaSet=portico"
    assert GATEWAY["depends_on"] == {"mongo-setup": {"condition": "service_completed_successfully"}}


@pytest.mark.parametrize("name", MONGODS)
def test_each_server_of_mongodb_keeps_its_data_and_is_reached_by_the_gateway_only(name: str) -> None:
    service = COMPOSE["services"][name]

    assert service["command"][1:3] == ["--replSet", "portico"]
    assert service["volumes"] == [f"{name}:/data/db"]
    assert name in COMPOSE["volumes"]
    assert "ports" not in service
    assert service["networks"] == ["data"]
    assert COMPOSE["networks"]["data"] == {"internal": True}
