"""A MongoDB that requires TLS and a password."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from portico.gateway.mongo.embedded import find_mongod
from portico.gateway.settings import Settings
from tests.support.processes import eventually

USER, PASSWORD = "portico", "s3cret/with:signs"


@contextlib.contextmanager
def secure_mongodb(folder: Path) -> Iterator[str]:
    """Starts the MongoDB, which is not a replica set. Yields its URI."""
    certificate, port, data = _certificate(folder), _free_port(), folder / "secure"
    data.mkdir()
    command = [find_mongod(Settings()), "--dbpath", str(data), "--bind_ip", "127.0.0.1", "--port", str(port), "--auth"]
    command += ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(certificate), "--nounixsocket"]
    command += ["--logpath", str(folder / "secure.log")]
    options = f"?tls=true&tlsCAFile={certificate}&directConnection=true"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as mongod:
        try:
            eventually(lambda: _add_user(f"mongodb://127.0.0.1:{port}/{options}"), 30)
            yield f"mongodb://{USER}:s3cret%2Fwith%3Asigns@127.0.0.1:{port}/{options}&authSource=admin"
        finally:
            mongod.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def _add_user(uri: str) -> bool:
    try:
        with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=500) as client:
            client["admin"].command("createUser", USER, pwd=PASSWORD, roles=["root"])
    except PyMongoError:
        return False
    return True


def _certificate(folder: Path) -> Path:
    """Writes a key and its self-signed certificate. Returns the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path
