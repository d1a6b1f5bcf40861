"""Counters: one document an ad, over all zones, for the caps on its impressions in all.

A document:

    _id           the key of the ad, see `ads.ad_key`
    campaign_id
    ad_unit_id
    shown         counted impressions. Only impressions of placements with a total cap are counted here
    claims        impressions in flight: [{token, at, profile}]. The token is random, a new one for each attempt
    claims_since  a lower bound of the oldest claim's time, rounded down to ten seconds so that the index of a hot
                  counter seldom changes; missing without claims
    highest_cap   the largest total cap that a claim has ever had

Each placement's own cap is compared with the ad's one counter.
"""

from __future__ import annotations

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec

COUNTERS = CollectionSpec(
    "ads.counters",
    indexes=[IndexModel([("claims_since", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)
