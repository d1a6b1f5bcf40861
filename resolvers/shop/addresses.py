"""Addresses of orders, and how they are checked."""

from __future__ import annotations

import re

from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import require_line
from portico.resolvers.typed import TypedDict

MAX_LINE = 200
MAX_POSTAL_CODE = 20
_COUNTRY = re.compile("[A-Z]{2}")
# The ISO 3166-1 codes of countries and territories.
_CODES = (
    "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA "
    "CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA "
    "GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP "
    "KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS "
    "MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS "
    "RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW "
    "TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW"
)
_COUNTRIES = frozenset(_CODES.split())
_NO_COUNTRY = "A country is an ISO 3166-1 code of two capitals, e.g. DE."


class Address(TypedDict):
    """Where an order is sent."""

    name: str
    line1: str
    line2: str | None
    city: str
    region: str | None
    postal_code: str | None
    # ISO 3166-1 alpha-2.
    country: str


def require_address(given: Address) -> Address:
    """Returns the address with trimmed texts. Texts that can be left out are None if they are empty.

    Raises:   InvalidInput, with the paths below `address`.
    """
    with InvalidInput.collect() as check:
        address: Address = {
            "name": check(require_line, given["name"], "address", "name", longest=MAX_LINE),
            "line1": check(require_line, given["line1"], "address", "line1", longest=MAX_LINE),
            "line2": check(_optional, given["line2"], "address", "line2", longest=MAX_LINE),
            "city": check(require_line, given["city"], "address", "city", longest=MAX_LINE),
            "region": check(_optional, given["region"], "address", "region", longest=MAX_LINE),
            "postal_code": check(_optional, given["postal_code"], "address", "postal_code", longest=MAX_POSTAL_CODE),
            "country": check(_require_country, given["country"], "address", "country"),
        }
    return address


def _optional(value: str | None, *path: str, longest: int) -> str | None:
    return require_line(value, *path, longest=longest) if value is not None and value.strip() else None


def _require_country(country: str, *path: str) -> str:
    if not _COUNTRY.fullmatch(country):
        raise InvalidInput(_NO_COUNTRY, *path, code=InvalidInput.WRONG_FORMAT, pattern=_COUNTRY.pattern)
    if country not in _COUNTRIES:
        raise InvalidInput(_NO_COUNTRY, *path, code=InvalidInput.UNKNOWN)
    return country
