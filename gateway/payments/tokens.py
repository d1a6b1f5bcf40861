"""The tokens that the payment service for tests knows."""

from __future__ import annotations

from enum import StrEnum


class Token(StrEnum):
    """The token of a charge."""

    ACCEPT = "accept"
    DECLINE = "decline"
    PENDING = "pending"
    BUSY = "busy"
    THROTTLED = "throttled"
    GARBLED = "garbled"
    HANG = "hang"
    HANG_LATE = "hang-late"
    DROP = "drop"
    DIE = "die"


# What the service does for each token. "A while" is `seconds` from the first request with a key.
TOKENS = {
    Token.ACCEPT: "The money is taken.",
    Token.DECLINE: "The charge is declined. This is final.",
    Token.PENDING: "The charge is pending for a while. Then the money is taken.",
    Token.BUSY: "It answers 503 twice. Then the money is taken.",
    Token.THROTTLED: "It answers 429 twice. Then the money is taken.",
    Token.GARBLED: "It returns an invalid answer for a while. Then the money is taken.",
    Token.HANG: "It doesn't answer for a while. Then the next request takes the money.",
    Token.HANG_LATE: "The money is taken immediately, but it doesn't answer for a while.",
    Token.DROP: "The money is taken immediately, but each connection is dropped for a while.",
    Token.DIE: "The money is taken, and the service stops before it answers.",
}
