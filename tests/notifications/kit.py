"""What the domain notifications tells the tests that run on every domain."""

from __future__ import annotations

from portico.resolvers.documents import Document
from portico.schema.kinds import Kind
from portico.testing.kits import Failure, Given, Kit, Known, Left, fails_with, read_budgets
from tests.notifications.support.news import JOB, notify, write_news
from tests.notifications.support.stages import Marks
from tests.support.harness import GatewayClient
from tests.support.leftovers import LONG_AGO
from tests.support.selections import INVALID

_NOWHERE = Kind.encode_id("Notification", f"{32 * '0'}.nobody")


async def _two(gateway: GatewayClient) -> tuple[Given, Given]:
    first, second = await notify(gateway.db, gateway.subject, "ann", "bob")
    return {"which": {"ids": [first]}}, {"which": {"through": second}}


async def _no_ids(_gateway: GatewayClient) -> Failure:
    return Failure({"which": {"ids": []}})


async def _unfinished_search(gateway: GatewayClient) -> Left:
    """The search for what was missed has ended, and the position still says that it goes on."""
    await write_news(gateway)
    missed: Document = {"since": LONG_AGO, "source": "~", "collection": "~"}
    await gateway.db["notification_positions"].update_one({}, {"$set": {"missed": missed}})
    return "notification_positions", {"_id": "changes", "missed": {"$exists": True}}


async def _seed(gateway: GatewayClient, _known: Known) -> Known:
    return {"id": await notify(gateway.db, gateway.subject, "ada", "bo")}


KIT = Kit(
    adds=("markNotificationsRead", "Notification"),
    mutations={
        "markNotificationsRead": "... on MarkNotificationsReadPayload { notifications { id } "
        f"viewer {{ unreadNotificationCount }} }} {INVALID}"
    },
    inputs={"markNotificationsRead": _two},
    failures={
        ("markNotificationsRead", "NotFound"): fails_with(lambda: {"which": {"ids": [_NOWHERE]}}),
        ("markNotificationsRead", "InvalidInput"): _no_ids,
    },
    leftovers={JOB: (_unfinished_search,)},
    scattered={"find notifications "},
    budgets=read_budgets(__file__),
    stages=(Marks,),
    seed=_seed,
)
