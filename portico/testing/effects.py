"""What calls have changed, to tell one effect from none and from two."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from portico.gateway.domains import BUILT_IN
from portico.resolvers.accounts.accounts import ACCOUNTS

from .gateways import Gateway


class Effect(NamedTuple):
    """How many documents the collections of domains outside of Portico have, and the balance of each account."""

    documents: Counter[str]
    balances: Counter[str]

    def since(self, before: Effect) -> tuple[dict[str, int], list[int]]:
        """Returns the changes since then: of the numbers of documents, and of the balances, without their accounts."""
        documents, balances = Counter(self.documents), Counter(self.balances)
        documents.subtract(before.documents)
        balances.subtract(before.balances)
        return {name: number for name, number in documents.items() if number}, sorted(filter(None, balances.values()))


async def effect_of(gateway: Gateway) -> Effect:
    """Returns the effect of all calls so far. Two calls in place of one create other documents, or pay twice."""
    served = gateway.domains.all
    outside = [spec.name for domain in served if domain.name not in BUILT_IN for spec in domain.collections]
    documents = Counter({name: await gateway.db[name].count_documents({}) for name in outside})
    found = gateway.db[ACCOUNTS.name].find({}, {"balance": 1})
    return Effect(documents, Counter({str(one["_id"]): one["balance"] async for one in found}))
