"""The worst operations within the default limits examine a bounded number of documents and index keys.

Each runs on a small database and on one that is several times as large. `python -m bench.worst` measures them on
300,000 objects a domain.
"""

from __future__ import annotations

import pytest

from bench import worst, worst_data
from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, running

pytestmark = pytest.mark.anyio
SMALL, LARGE = 500, 1_500
# The most documents and index keys that one operation examines, and the most commands that it sends.
MOST_EXAMINED, MOST_COMMANDS = 60_000, 400
# An operation has at most two of these, and each has a bound of its own, which a test's database does not reach.
COUNTS = {"totals", "facets"}
# The longest thread of the small database does not fill a page.
SHORT = {"threads, DOCUMENTS"}


async def costs(settings: Settings, size: int) -> dict[str, worst.Cost]:
    """Returns what each of the operations costs on a database of this size."""
    found = {}
    async with running(settings) as gateway:
        known = await worst_data.store(gateway.db, size)
        for name, operation in worst.operations(known).items():
            found[name] = await worst.examine(gateway, operation, worst.most(gateway, operation))
        # The indexes stay, for the next size.
        for name in await gateway.db.list_collection_names():
            if name == "system.profile":
                await gateway.db[name].drop()
            else:
                await gateway.db[name].delete_many({})
    return found


@pytest.mark.timeout(600)
async def test_the_worst_operations_cost_the_same_in_a_database_of_any_size(settings: Settings) -> None:
    small, large = await costs(settings, SMALL), await costs(settings, LARGE)

    assert all(set(cost.codes) <= {"ANSWER_TOO_LARGE"} for cost in large.values()), large
    examined = {name: (small[name].examined, cost.examined) for name, cost in large.items()}
    grown = {name: counts for name, counts in examined.items() if counts[1] > 1.2 * counts[0] + 1_000}
    assert set(grown) <= COUNTS | SHORT, grown
    assert {name: counts for name, counts in examined.items() if max(counts) > MOST_EXAMINED} == {}
    sent = {name: (small[name].commands, cost.commands) for name, cost in large.items()}
    assert {name: counts for name, counts in sent.items() if max(counts) > MOST_COMMANDS} == {}


async def test_an_operation_is_as_large_as_the_limits_allow(gateway: GatewayClient) -> None:
    operation = worst.Operation("a%n: products(first: 100) { nodes { title } }")

    times = worst.most(gateway, operation)

    assert (await gateway.ask(operation.text(times), token=None)).codes == []
    assert (await gateway.ask(operation.text(times + 1), token=None)).codes == ["OPERATION_TOO_COMPLEX"]
