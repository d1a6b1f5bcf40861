"""Says how stores between the gateway and its clients, such as browsers and CDNs, may use an answer to GET.

They may use it without asking for as long as its fields declare (`operations/max_ages.py`), and otherwise not at all.

Source: RFC 9111, "HTTP Caching".
"""

from __future__ import annotations

from dataclasses import replace

from portico.gateway.caller_rates import ALLOWANCE_HEADERS
from portico.gateway.operations.responses import Response
from portico.schema.context import Caller

ACCEPT, ACCEPT_AND_CALLER = "Accept", "Accept, Authorization"


def fresh(response: Response, max_age: int, caller: Caller | None, *, is_shared: bool) -> Response:
    """Returns the response with headers that allow its use for `max_age` seconds; with 0, as it is.

    If its answer `is_shared`, nobody has asked who the caller is, so it is the answer for every caller. The allowance
    of this caller is not that of others, so an answer that others may get does not say it.
    """
    if not max_age:
        return response
    # An anonymous answer is the same for all anonymous callers.
    scope = "public" if is_shared or caller is None else "private"
    vary = ACCEPT if is_shared else ACCEPT_AND_CALLER
    headers = {
        name: value for name, value in response.headers.items() if scope == "private" or name not in ALLOWANCE_HEADERS
    }
    return replace(response, headers={**headers, "Cache-Control": f"{scope}, max-age={max_age}", "Vary": vary})
