"""Refuses integers in the text of an operation that are too large, with the same message everywhere."""

from __future__ import annotations

import re
from typing import Any

from graphql import (
    GRAPHQL_MAX_INT,
    GRAPHQL_MIN_INT,
    GraphQLError,
    IntValueNode,
    ValidationRule,
    get_named_type,
)

from portico.schema.scalars import BIG, out_of_range

# The number of digits of the largest Float.
MAX_DIGITS = 309
# An integer that is too large for its type has at least 10 digits.
_LONG = re.compile(r"[0-9]{10}")
_RANGES = {"Int": (GRAPHQL_MIN_INT, GRAPHQL_MAX_INT), "BigInt": (-BIG, BIG)}


def may_be_too_large(text: str) -> bool:
    return _LONG.search(text) is not None


class LargeIntegers(ValidationRule):
    """Reports integers outside the range of `Int` or `BigInt`, and those of more than 309 digits anywhere else.

    The messages of graphql-core repeat all digits, and converting more than 4,300 digits fails in Python.
    """

    def enter_int_value(self, node: IntValueNode, *_: Any) -> None:
        digits = len(node.value.lstrip("-"))
        given = self.context.get_input_type()
        name = "" if given is None else get_named_type(given).name
        if name in _RANGES:
            lowest, highest = _RANGES[name]
            # The length is compared first: Python converts no more than 4,300 digits.
            if digits > MAX_DIGITS or not lowest <= int(node.value) <= highest:
                bound = f"`{name}` must be between {lowest} and {highest}"
                self.report_error(GraphQLError(out_of_range(node.value, bound), node))
        elif digits > MAX_DIGITS:
            self.report_error(GraphQLError(out_of_range(node.value, f"it can have at most {MAX_DIGITS} digits"), node))
