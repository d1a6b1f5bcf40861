"""Campaigns: what the ads of an advertiser belong to. The collection.

      ACTIVE --deactivate--> ENDING --its ads are out of all zones--> DEACTIVATED

The first placement of an ad creates its campaign. Campaigns are never deleted: a deactivation is final.
"""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Versioned

ACTIVE, ENDING, DEACTIVATED = "ACTIVE", "ENDING", "DEACTIVATED"


class CampaignDocument(Versioned):
    """A campaign. Its `_id` is the campaign id, `advertiser:campaign`."""

    _id: str
    # The part before the first colon.
    advertiser: str
    # ACTIVE, ENDING or DEACTIVATED.
    state: str
    # How many zones its ads were taken out of; stored once, while it is ENDING.
    zones: NotRequired[int]
    # The ids of some of these zones, for the payload; stored with `zones`.
    ended_in: NotRequired[list[str]]
    # How often a placement has looked at the state.
    looks: int
    # When it became ENDING; removed once it is DEACTIVATED.
    ending_since: NotRequired[datetime]


CAMPAIGNS = CollectionSpec(
    "ads.campaigns",
    document=CampaignDocument,
    indexes=[IndexModel([("ending_since", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)
