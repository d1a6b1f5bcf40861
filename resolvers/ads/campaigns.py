"""Campaigns: what the ads of an advertiser belong to. The collection.

A document:

    _id          the campaign id, `advertiser:campaign`
    advertiser   the part before the first colon
    state        ACTIVE, ENDING or DEACTIVATED
    zones        how many zones its ads were taken out of; stored once, while it is ENDING
    looks        how often a placement has looked at the state
    ending_since when it became ENDING; removed once it is DEACTIVATED

      ACTIVE --deactivate--> ENDING --its ads are out of all zones--> DEACTIVATED

The first placement of an ad creates its campaign. Campaigns are never deleted: a deactivation is final.
"""

from __future__ import annotations

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec

ACTIVE, ENDING, DEACTIVATED = "ACTIVE", "ENDING", "DEACTIVATED"

CAMPAIGNS = CollectionSpec(
    "ads.campaigns",
    indexes=[IndexModel([("ending_since", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)
