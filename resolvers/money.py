"""Checks amounts of money and currencies."""

from __future__ import annotations

import re

from .errors import InvalidInput

# The largest integer that a JSON number represents exactly.
MAX_AMOUNT = 2**53 - 1

# The active ISO 4217 codes of currencies in circulation.
_CODES = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF "
    "CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL "
    "HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD "
    "MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG "
    "QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD "
    "TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG"
)
_CURRENCIES = frozenset(_CODES.split())
_CURRENCY = re.compile("[A-Z]{3}")
_NO_CURRENCY = "A currency is an ISO 4217 code in capitals, e.g. USD."


def require_currency(currency: str, *path: str) -> str:
    """Returns the ISO 4217 code unchanged. Raises InvalidInput if there is no such currency."""
    if not _CURRENCY.fullmatch(currency):
        raise InvalidInput(_NO_CURRENCY, *path, code=InvalidInput.WRONG_FORMAT, pattern=_CURRENCY.pattern)
    if currency not in _CURRENCIES:
        raise InvalidInput(_NO_CURRENCY, *path, code=InvalidInput.UNKNOWN)
    return currency


def require_amount(amount: int, *path: str) -> int:
    """Returns the amount in minor units unchanged. Raises InvalidInput below 1 and above 2^53 - 1."""
    if not 1 <= amount <= MAX_AMOUNT:
        raise InvalidInput(
            "An amount must be from 1 to 2^53 - 1 minor units.",
            *path,
            code=InvalidInput.OUT_OF_RANGE,
            least=1,
            most=2**53 - 1,
        )
    return amount
