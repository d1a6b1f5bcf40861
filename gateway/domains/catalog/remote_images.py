"""Downloads the images that records of an import name by their URLs.

The author of an import file could make the importing machine read from hosts that only it can reach. So only http
and https are read, and only from public addresses: each host is resolved once, all its addresses are checked, and the
connection goes to a checked one, also after a redirect. The size and the time of a download are bounded. Compressed
answers are refused, because a few bytes of them can become gigabytes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx

from portico.resolvers.errors import InvalidInput, UnacceptableFile
from portico.resolvers.urls import require_web_url

_SECONDS = 30.0
_MAX_REDIRECTS = 3
# The addresses that gateways and tunnels translate to IPv4 ones, by the first bit of these. Where the operating system
# still knows them, IPv4-compatible addresses are translated, too.
# Source: RFC 6052, section 2.1; RFC 8215; RFC 3056, section 2; RFC 4291, section 2.5.5.1.
_EMBEDDING = {
    ipaddress.IPv6Network("64:ff9b::/96"): 0,
    ipaddress.IPv6Network("2002::/16"): 80,
    ipaddress.IPv6Network("::/96"): 0,
    ipaddress.IPv6Network("::ffff:0:0/96"): 0,
    ipaddress.IPv6Network("::ffff:0:0:0/96"): 0,
}
# Site-local addresses, and the translations of a network of its own, are private. Python calls them global.
_PRIVATE = (ipaddress.IPv6Network("fec0::/10"), ipaddress.IPv6Network("64:ff9b:1::/48"))


async def _addresses_of(host: str, port: int) -> list[str]:
    """Returns the addresses of a host. Raises OSError for an unknown one."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]


@dataclass(frozen=True)
class RemoteImages:
    """Downloads images.

    Args:     allows_private: whether hosts may have private addresses, e.g. in a network of the shop's own.
              seconds: how long a download may take, in all.
              addresses_of: returns the addresses of a host.
    """

    allows_private: bool = False
    seconds: float = _SECONDS
    transport: httpx.AsyncBaseTransport | None = None
    addresses_of: Callable[[str, int], Awaitable[list[str]]] = _addresses_of

    async def read(self, url: str) -> AsyncIterator[bytes]:
        """Yields the pieces of the file. Raises UnacceptableFile if it cannot be read."""
        async with httpx.AsyncClient(transport=self.transport, timeout=self.seconds, trust_env=False) as client:
            try:
                async with asyncio.timeout(self.seconds):
                    response = await self._open(client, url)
                    try:
                        async for piece in response.aiter_bytes():
                            yield piece
                    finally:
                        await response.aclose()
            except TimeoutError:
                raise UnacceptableFile(f"The download took longer than {self.seconds:g} seconds.") from None
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                raise UnacceptableFile(f"The file cannot be downloaded: {type(error).__name__}.") from None

    async def _open(self, client: httpx.AsyncClient, url: str) -> httpx.Response:
        """Returns the response with the file, whose body is not read yet. Follows up to three redirects."""
        for _ in range(_MAX_REDIRECTS + 1):
            response = await client.send(await self._request(client, url), stream=True)
            is_compressed = response.headers.get("content-encoding", "identity").lower() != "identity"
            if response.is_success and not is_compressed:
                return response
            await response.aclose()
            if response.is_success:
                raise UnacceptableFile("The file cannot be downloaded: the server sends it compressed.")
            if not response.has_redirect_location:
                raise UnacceptableFile(f"The file cannot be downloaded: status {response.status_code}.")
            url = str(httpx.URL(url).join(response.headers["location"]))
        raise UnacceptableFile(f"The file cannot be downloaded: more than {_MAX_REDIRECTS} redirects.")

    async def _request(self, client: httpx.AsyncClient, url: str) -> httpx.Request:
        """Returns a request to a checked address of the host."""
        try:
            target = httpx.URL(require_web_url(url, "url"))
        except InvalidInput as error:
            raise UnacceptableFile(str(error)) from None
        address = await self._address_of(target.host, target.port or (443 if target.scheme == "https" else 80))
        headers = {"host": target.netloc.decode(), "accept": "image/*", "accept-encoding": "identity"}
        # The certificate must be that of the host, although the request goes to its address.
        return client.build_request(
            "GET", target.copy_with(host=address), headers=headers, extensions={"sni_hostname": target.host}
        )

    async def _address_of(self, host: str, port: int) -> str:
        """Returns an address of the host. Raises UnacceptableFile if one of its addresses is private."""
        addresses = await self.addresses_of(host, port)
        if not self.allows_private and not all(_is_public(one) for one in addresses):
            raise UnacceptableFile(
                f"The host {host!r} has a private address. To import from it, set PORTICO_IMPORT_PRIVATE_HOSTS."
            )
        return addresses[0]


def _is_public(address: str) -> bool:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if any(parsed in network for network in _PRIVATE):
            return False
        parsed = next((_embedded(parsed, bit) for network, bit in _EMBEDDING.items() if parsed in network), parsed)
    return parsed.is_global and not parsed.is_multicast


def _embedded(address: ipaddress.IPv6Address, bit: int) -> ipaddress.IPv4Address:
    """Returns the IPv4 address in the bits of an IPv6 address from this one on."""
    return ipaddress.IPv4Address(int(address) >> bit & 0xFFFFFFFF)
