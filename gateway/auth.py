"""Authenticates callers by bearer tokens. The settings, never the token, decide how a token is checked."""

from __future__ import annotations

import importlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import jwt
from jwt.types import Options

from portico.resolvers.configuration import Secret
from portico.resolvers.lru import Lru
from portico.resolvers.texts import is_line, shown_line
from portico.schema.context import Caller
from portico.schema.roles import OWN_ROLES, Role

from .logs import logger
from .settings import Settings

if TYPE_CHECKING:
    import httpx

    from .jwks import Jwks

_ASYMMETRIC = ["RS256", "ES256"]
_LEEWAY_SECONDS = 10
# One for each subscriber with a token: each event checks all of them. A token takes about a kilobyte.
_KEPT_TOKENS = 10_000
_LONGEST_NAME = 200
# How many different unknown roles are logged.
_LOGGED_ROLES = 1_000
# The longest time that a token is cached, so that a token of a withdrawn key does not stay valid until it expires.
_KEPT_SECONDS = 300.0


class InvalidToken(Exception):
    """The token is not valid. The text says why, for its sender."""

    code = "UNAUTHENTICATED"

    @property
    def challenge(self) -> str:
        """The value of `WWW-Authenticate`, as RFC 6750, section 3, has it."""
        return f'Bearer realm="portico", error="invalid_token", error_description="{self}"'


class ExpiredToken(InvalidToken):
    """The token was valid. A client can get a new one without its user."""

    code = "TOKEN_EXPIRED"

    def __init__(self) -> None:
        super().__init__("The token has expired.")


class OtherScheme(InvalidToken):
    """The `Authorization` header has no bearer token."""

    @property
    def challenge(self) -> str:
        """The challenge has no error, because the client did not send a token."""
        return 'Bearer realm="portico"'


class UnknownRole(Exception):
    """No served domain has a role with this name."""


class KeysUnavailable(Exception):
    """The public keys cannot be read, so the gateway cannot check a token at the moment."""


@dataclass(frozen=True)
class Identity:
    """Whose a token is, and until when. Times are in seconds since 1970.

    The token need not be checked again before `good_until`. Without a token, the caller is None.
    """

    caller: Caller | None
    expires: float
    good_until: float


_NOBODY = Identity(None, math.inf, math.inf)


class Authenticator:
    """Checks the signature, expiry, audience and issuer of tokens. Caches valid tokens for a while.

    `own_roles` and `own_claims` are those that the served domains declare.
    """

    def __init__(
        self,
        settings: Settings,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        own_roles: Iterable[Role] = (),
        own_claims: Iterable[Caller.Claim[Any]] = (),
    ) -> None:
        self._roles: Sequence[Role] = (*OWN_ROLES, *own_roles)
        self._claims: Sequence[Caller.Claim[Any]] = tuple(own_claims)
        self._settings = settings
        self._secret: Secret | None = settings.signing_secret()
        self._jwks: Jwks | None = None
        if settings.jwks_url is not None:
            # The client that reads the keys takes long to import.
            self._jwks = importlib.import_module("portico.gateway.jwks").Jwks(settings.jwks_url, transport)
        self._good: Lru[str, Identity] = Lru(_KEPT_TOKENS)
        self._unknown_roles: set[str] = set()
        self._misread_claims: set[str] = set()

    async def authenticate(self, authorization: str | None) -> Caller | None:
        """Returns the caller of a request with this `Authorization` header; None without a header.

        Raises:   InvalidToken, KeysUnavailable.
        """
        return (await self.identify(authorization)).caller

    async def identify(self, authorization: str | None) -> Identity:
        """Returns whose token is in an `Authorization` header. Raises InvalidToken, KeysUnavailable."""
        if authorization is None:
            return _NOBODY
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise OtherScheme("The Authorization header must be `Bearer`, then a space and a token.")
        known = self._good.get(token)
        if known is not None and known.good_until > time.time():
            return known
        caller, expires = await self._check(token)
        found = Identity(caller, expires + _LEEWAY_SECONDS, min(expires, time.time() + _KEPT_SECONDS))
        self._good.put(token, found)
        return found

    def known(self, authorization: str) -> Caller | None:
        """Returns the caller of a request that was answered just now, by its `Authorization` header.

        Checks nothing: it only finds callers whose tokens were valid lately. Returns None for all others.
        """
        found = self._good.get(authorization.strip().partition(" ")[2].strip())
        return None if found is None else found.caller

    def check_own(self, token: str) -> Caller:
        """Returns the caller of a token signed with the secret. Raises InvalidToken."""
        return self._decode(token, self._secret, ["HS256"])[0]

    async def _check(self, token: str) -> tuple[Caller, float]:
        try:
            key, algorithms = await self._key_for(token)
        except jwt.PyJWTError as error:
            raise InvalidToken(_reason(error)) from None
        return self._decode(token, key, algorithms)

    def _decode(self, token: str, key: Any, algorithms: list[str]) -> tuple[Caller, float]:
        try:
            options: Options = {"require": ["exp", "sub", "aud"]}
            claims = jwt.decode(
                token,
                key,
                algorithms=algorithms,
                audience=self._settings.jwt_audience,
                issuer=self._settings.jwt_issuer,
                leeway=_LEEWAY_SECONDS,
                options=options,
            )
        except jwt.ExpiredSignatureError:
            raise ExpiredToken from None
        except jwt.PyJWTError as error:
            raise InvalidToken(_reason(error)) from None
        subject: str = claims["sub"]
        _require_subject(subject)
        known = self._roles_in(claims.get("roles", []))
        name = claims.get("name")
        shown = shown_line(_as_text(name), longest=_LONGEST_NAME) if isinstance(name, str) else ""
        return Caller(subject, known, shown, self._claims_in(claims)), _seconds(claims["exp"])

    def _roles_in(self, given: Any) -> frozenset[Role]:
        """Returns the roles that the gateway knows. Logs each other one once, up to 1,000 of them."""
        names = given if isinstance(given, list) else []
        known = frozenset(role for role in self._roles if role.value in names)
        others = {repr(name)[:_LONGEST_NAME] for name in names} - {repr(role.value) for role in known}
        if given is not names:
            others = {repr(given)[:_LONGEST_NAME]}
        new = sorted(others - self._unknown_roles)[: _LOGGED_ROLES - len(self._unknown_roles)]
        if new:
            self._unknown_roles.update(new)
            logger().warning("a token has unknown roles, which grant nothing", roles=new)
        return known

    def _claims_in(self, given: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
        """Returns the claims of the domains as JSON: null if the token has none. Logs a value of another type once."""
        found = {}
        for claim in self._claims:
            value = given.get(claim.name)
            if value is not None and not claim.fits(value):
                if claim.name not in self._misread_claims:
                    self._misread_claims.add(claim.name)
                    logger().warning("a token has a claim of another type, which is ignored", claim=claim.name)
                value = None
            found[claim.name] = json.dumps(value, sort_keys=True)
        return frozenset(found.items())

    async def _key_for(self, token: str) -> tuple[Any, list[str]]:
        """Returns the key that checks a token, with the algorithms of this key."""
        header = jwt.get_unverified_header(token)
        if self._jwks is not None and (self._secret is None or header.get("kid")):
            key = await self._jwks.key(header.get("kid"))
            if key is None:
                raise KeysUnavailable
            return key, _ASYMMETRIC
        return self._secret, ["HS256"]

    def issue(
        self,
        subject: str,
        roles: Sequence[Role],
        *,
        now: datetime,
        lasts: timedelta,
        name: str | None = None,
        own_claims: Mapping[str, Any] | None = None,
    ) -> str:
        """Returns a token for development, signed with the secret, with these claims of domains.

        Raises InvalidToken if there is no secret, or if the gateway would refuse the subject.
        """
        if self._secret is None:
            raise InvalidToken(
                "There is no secret to sign a token with. Get tokens from the issuer of PORTICO_JWKS_URL, "
                "or set PORTICO_JWT_SECRET."
            )
        _require_subject(subject)
        issued = int((now - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001 - all times here are in UTC
        claims: dict[str, Any] = {
            **(own_claims or {}),
            "sub": subject,
            "roles": [role.value for role in roles],
            "aud": self._settings.jwt_audience,
            "iat": issued,
            "exp": issued + int(lasts.total_seconds()),
        }
        if name is not None:
            claims["name"] = name
        if self._settings.jwt_issuer is not None:
            claims["iss"] = self._settings.jwt_issuer
        return jwt.encode(claims, self._secret, algorithm="HS256")


def roles_named(names: Sequence[str], own_roles: Callable[[], Iterable[Role]] = tuple) -> list[Role]:
    """Returns the roles with these names, in any case. Raises UnknownRole.

    Args:     own_roles: returns the roles of the domains. It is called for a role that is not one of Portico's.
    """
    known = {role.name: role for role in OWN_ROLES}
    wanted = {name: name.upper() for name in names}
    if not known.keys() >= set(wanted.values()):
        known |= {role.name: role for role in own_roles()}
    for name, role in wanted.items():
        if role not in known:
            raise UnknownRole(f"{name!r} is not one of {', '.join(map(repr, known))}.")
    return [known[name.upper()] for name in names]


def _require_subject(subject: str) -> None:
    """Raises InvalidToken for a subject that identifies nobody, or that the database cannot store."""
    if not subject.strip():
        raise InvalidToken("The token's subject is empty.")
    if _as_text(subject) != subject:
        raise InvalidToken("The token's subject is no valid Unicode text.")
    if not is_line(subject):
        raise InvalidToken("The token's subject has a control character or a line break.")


def _seconds(expires: Any) -> float:
    try:
        return float(expires)
    except OverflowError:
        raise InvalidToken("The token cannot be read.") from None


def _as_text(text: str) -> str:
    """Returns the text with question marks for lone surrogates, which JSON can have and UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def _reason(error: jwt.PyJWTError) -> str:
    return _REASONS.get(type(error), "The token is not valid.")


_REASONS: dict[type[jwt.PyJWTError], str] = {
    jwt.InvalidAudienceError: "The token is for another audience.",
    jwt.InvalidIssuerError: "The token is from another issuer.",
    jwt.InvalidSignatureError: "The token's signature does not match.",
    jwt.InvalidAlgorithmError: "The token's algorithm is not accepted.",
    jwt.MissingRequiredClaimError: "The token lacks a claim: exp, sub and aud are required.",
    jwt.ImmatureSignatureError: "The token is not valid yet.",
    jwt.DecodeError: "The token cannot be read.",
}
