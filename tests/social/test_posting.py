"""The mutations of posts, as clients call them."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from portico.resolvers.declarations import Wakeups
from portico.resolvers.social.settings import SocialSettings
from portico.schema.roles import Role
from tests.content.support.photos import PicturesHere, create_gallery, create_photo, use_pictures
from tests.social.support.post_reads import posts_in
from tests.social.support.posts import POSTING, add_followers, call, codes, feeds_with, new_post
from tests.social.support.social import block, circle, join, user_id
from tests.support.harness import GatewayClient, SettableClock, run_jobs, running, with_settings

POLL = {"poll": {"text": "Tabs?", "options": ["Yes", "No", "Both"]}}
MAX = user_id("max")


@pytest.fixture
async def members(gateway: GatewayClient) -> GatewayClient:
    """A gateway with the members max, dwight and jared. Dwight is in a circle of max."""
    await join(gateway.db, "max", "dwight", "jared")
    await circle(gateway.db, "max", "dwight", name="work")
    return gateway


DETAILS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a status": ({"status": {"text": " Hi\r\nyou "}}, {"__typename": "StatusPost", "text": "Hi\nyou"}),
    "a link": (
        {"link": {"url": "https://example.org/?q=1#x"}},
        {"__typename": "LinkPost", "text": "", "url": "https://example.org/?q=1#x"},
    ),
    "a place": (
        {"checkin": {"place": "Office", "latitude": 40.7, "longitude": -180, "text": "Great"}},
        {"__typename": "CheckinPost", "text": "Great", "place": "Office", "latitude": 40.7, "longitude": -180.0},
    ),
    "a poll": (
        POLL,
        {
            "__typename": "PollPost",
            "text": "Tabs?",
            "options": [{"text": text, "votes": 0} for text in ("Yes", "No", "Both")],
            "viewerVote": None,
        },
    ),
    "a long text": ({"status": {"text": "ü" * 100_000}}, {"__typename": "StatusPost", "text": "ü" * 100_000}),
}


@pytest.mark.parametrize("name", DETAILS)
async def test_each_kind_of_post_shows_what_its_author_wrote(members: GatewayClient, name: str) -> None:
    detail, expected = DETAILS[name]

    post = await new_post(members, "max", detail=detail)

    assert expected.items() <= post.items()
    author = {"userId": "max", "name": "Max"}
    assert (post["by"], post["to"], post["audience"], post["commentCount"]) == (author, author, "PUBLIC", 0)


async def test_a_photo_of_the_site_can_be_posted_and_other_content_cannot(members: GatewayClient) -> None:
    use_pictures(members, PicturesHere())
    gallery = await create_gallery(members)
    photo = await create_photo(members, gallery)

    post = await new_post(members, "max", detail={"photo": {"photoId": photo["id"]}})
    refused = await call(members, "max", "createPost", detail={"photo": {"photoId": gallery["id"]}})
    missing = await call(members, "max", "createPost", detail={"photo": {"photoId": MAX}})

    assert post["photo"] == {"id": photo["id"]}
    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["detail", "photo", "photoId"])
    assert missing["__typename"] == "NotFound"


INVALID: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an empty text": ({"status": {"text": " \n"}}, ["detail", "status", "text"]),
    "a text that is too long": ({"status": {"text": "x" * 100_001}}, ["detail", "status", "text"]),
    "a script": ({"link": {"url": "javascript:alert(1)"}}, ["detail", "link", "url"]),
    "a script in another case": ({"link": {"url": " JavaScript:alert(1)"}}, ["detail", "link", "url"]),
    "data": ({"link": {"url": "data:text/html,x"}}, ["detail", "link", "url"]),
    "no host": ({"link": {"url": "https://"}}, ["detail", "link", "url"]),
    "a latitude": ({"checkin": {"place": "x", "latitude": 90.1, "longitude": 0}}, ["detail", "checkin", "latitude"]),
    "a longitude": ({"checkin": {"place": "x", "latitude": 0, "longitude": -181}}, ["detail", "checkin", "longitude"]),
    "a place": ({"checkin": {"place": "", "latitude": 0, "longitude": 0}}, ["detail", "checkin", "place"]),
    "one option": ({"poll": {"text": "?", "options": ["a"]}}, ["detail", "poll", "options"]),
    "eleven options": ({"poll": {"text": "?", "options": list("abcdefghijk")}}, ["detail", "poll", "options"]),
    "equal options": ({"poll": {"text": "?", "options": ["a", " a"]}}, ["detail", "poll", "options", "1"]),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_post_is_refused_with_the_path_of_the_value(members: GatewayClient, name: str) -> None:
    detail, path = INVALID[name]

    refused = await call(members, "max", "createPost", detail=detail)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", path)
    assert await members.db["social.posts"].count_documents({}) == 0


@pytest.mark.parametrize(
    ("audience", "circles", "path"),
    [
        ("SELECTED", None, ["circles"]),
        ("SELECTED", [], ["circles"]),
        ("SELECTED", ["work", "chess"], ["circles", "1"]),
        ("SELECTED", ["c"] * 201, ["circles", "0"]),
        ("PUBLIC", ["work"], ["circles"]),
    ],
)
async def test_a_post_names_circles_of_its_author_and_only_for_selected_circles(
    members: GatewayClient, audience: str, circles: list[str] | None, path: list[str]
) -> None:
    given = {"detail": {"status": {"text": "x"}}, "audience": audience, "circles": circles}

    refused = await call(members, "max", "createPost", **given)

    assert (refused["__typename"], refused["path"]) == ("InvalidInput", path)


async def test_a_post_on_another_wall_is_refused_after_a_block_as_if_the_member_did_not_exist(
    members: GatewayClient,
) -> None:
    post = await new_post(members, "dwight", toId=MAX)
    await block(members.db, "max", "dwight")
    await block(members.db, "jared", "max")
    detail = {"status": {"text": "x"}}

    answers = [
        await call(members, "dwight", "createPost", detail=detail, toId=MAX),
        await call(members, "jared", "createPost", detail=detail, toId=MAX),
        await call(members, "dwight", "createPost", detail=detail, toId=user_id("nobody")),
    ]

    assert post["to"] == {"userId": "max", "name": "Max"}
    assert [(answer["__typename"], answer["message"]) for answer in answers] == [
        ("NotFound", "There is no such user.")
    ] * 3


async def test_a_caller_who_has_not_joined_cannot_post_comment_or_vote(members: GatewayClient) -> None:
    post = await new_post(members, "max", detail=POLL)

    for mutation, given in {
        "createPost": {"detail": {"status": {"text": "x"}}},
        "commentOnPost": {"postId": post["id"], "text": "x"},
        "vote": {"postId": post["id"], "option": 0},
    }.items():
        answer = await call(members, "stranger", mutation, **given)
        assert answer["__typename"] == "NotFound"
        assert "Call `join` first" in answer["message"]
        anonymous = await members.ask(POSTING[mutation], {"input": given}, token=None)
        assert anonymous.codes == ["UNAUTHENTICATED"]


async def test_only_members_who_see_a_post_can_comment_and_vote(members: GatewayClient) -> None:
    post = await new_post(members, "max", detail=POLL, audience="SELECTED", circles=["work"])
    comment, vote = {"postId": post["id"], "text": "x"}, {"postId": post["id"], "option": 1}

    assert (await call(members, "jared", "commentOnPost", **comment))["missingId"] == post["id"]
    assert (await call(members, "jared", "vote", **vote))["missingId"] == post["id"]
    commented = await call(members, "dwight", "commentOnPost", **comment)
    voted = await call(members, "dwight", "vote", **vote)

    assert commented["post"]["latestComments"][0]["by"] == {"userId": "dwight"}
    assert [option["votes"] for option in voted["post"]["options"]] == [0, 1, 0]
    assert voted["post"]["circles"] is None
    assert post["circles"] == ["work"]


async def test_a_member_has_one_vote_and_the_last_one_counts(members: GatewayClient) -> None:
    post = await new_post(members, "max", detail=POLL)
    for option in (0, 2, 2, 1):
        voted = await call(members, "dwight", "vote", postId=post["id"], option=option)
        assert voted["post"]["viewerVote"] == option
    await call(members, "jared", "vote", postId=post["id"], option=1)

    voted = await call(members, "max", "vote", postId=post["id"], option=0)

    assert [option["votes"] for option in voted["post"]["options"]] == [1, 2, 0]


async def test_a_repeated_vote_does_not_undo_a_later_one(members: GatewayClient) -> None:
    post = await new_post(members, "max", detail=POLL)
    first = {"postId": post["id"], "option": 0, "idempotencyKey": "first"}
    await call(members, "dwight", "vote", **first)
    await call(members, "dwight", "vote", postId=post["id"], option=2)

    voted = await call(members, "dwight", "vote", **first)

    assert voted["post"]["viewerVote"] == 2


async def test_a_vote_names_an_option_of_a_poll(members: GatewayClient) -> None:
    poll, status = await new_post(members, "max", detail=POLL), await new_post(members, "max")

    for option in (-1, 3):
        refused = await call(members, "dwight", "vote", postId=poll["id"], option=option)
        assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["option"])
    refused = await call(members, "dwight", "vote", postId=status["id"], option=0)
    assert (refused["__typename"], refused["path"]) == ("InvalidInput", ["postId"])


async def test_a_post_is_deleted_by_its_author_the_owner_of_the_wall_or_an_editor(members: GatewayClient) -> None:
    for caller, roles in {"dwight": (), "max": (), "jared": (Role.EDITOR,)}.items():
        post = await new_post(members, "dwight", toId=MAX)
        await call(members, "max", "commentOnPost", postId=post["id"], text="x")

        gateway = members.as_caller(caller, *roles)
        given = {"input": {"postId": post["id"]}}
        deleted = (await gateway.data(POSTING["deletePost"], given))["deletePost"]
        again = (await gateway.data(POSTING["deletePost"], given))["deletePost"]

        assert deleted == {"__typename": "DeletedPayload", "deletedId": post["id"]}
        assert again["__typename"] == "NotFound"
        shown = await members.as_caller("dwight").data("query ($id: ID!) { node(id: $id) { id } }", {"id": post["id"]})
        assert shown["node"] is None


async def test_nobody_else_deletes_a_post_and_whoever_does_not_see_it_gets_not_found(members: GatewayClient) -> None:
    public = await new_post(members, "max")
    private = await new_post(members, "max", audience="CIRCLES")

    assert await codes(members, "jared", "deletePost", postId=public["id"]) == ["FORBIDDEN"]
    assert (await call(members, "jared", "deletePost", postId=private["id"]))["__typename"] == "NotFound"
    assert (await call(members, "jared", "deletePost", postId=MAX))["__typename"] == "NotFound"


async def test_a_comment_is_deleted_by_its_author_the_author_of_the_post_or_an_editor(members: GatewayClient) -> None:
    post = await new_post(members, "max")
    for caller, roles in {"dwight": (), "max": (), "jared": (Role.EDITOR,)}.items():
        commented = await call(members, "dwight", "commentOnPost", postId=post["id"], text="x")
        (comment,) = commented["post"]["latestComments"]
        given = {"postId": post["id"], "commentId": comment["id"]}
        if not roles:
            assert await codes(members, "jared", "deletePostComment", **given) == ["FORBIDDEN"]

        gateway = members.as_caller(caller, *roles)
        deleted = (await gateway.data(POSTING["deletePostComment"], {"input": given}))["deletePostComment"]
        again = await call(members, caller, "deletePostComment", **given)

        assert (deleted["post"]["commentCount"], deleted["post"]["latestComments"]) == (0, [])
        assert (again["__typename"], again["missingId"]) == ("NotFound", comment["id"])


async def test_a_block_protects_neither_a_post_on_a_wall_nor_a_comment_from_those_who_may_delete_it(
    members: GatewayClient,
) -> None:
    mine = await new_post(members, "max")
    commented = await call(members, "dwight", "commentOnPost", postId=mine["id"], text="x")
    theirs = await new_post(members, "dwight", toId=MAX)
    await block(members.db, "dwight", "max")

    comment = commented["post"]["latestComments"][0]["id"]
    without = await call(members, "max", "deletePostComment", postId=mine["id"], commentId=comment)
    gone = await call(members, "max", "deletePost", postId=theirs["id"])

    assert without["post"]["commentCount"] == 0
    assert gone["__typename"] == "DeletedPayload"


async def test_an_editor_deletes_comments_of_posts_that_the_editor_does_not_see(members: GatewayClient) -> None:
    post = await new_post(members, "max", audience="CIRCLES")
    commented = await call(members, "max", "commentOnPost", postId=post["id"], text="x")
    given = {"postId": post["id"], "commentId": commented["post"]["latestComments"][0]["id"]}

    refused = await call(members, "jared", "deletePostComment", **given)
    editor = members.as_caller("jared", Role.EDITOR)
    deleted = (await editor.data(POSTING["deletePostComment"], {"input": given}))["deletePostComment"]
    left = await members.as_caller("max").data(
        "query ($id: ID!) { node(id: $id) { ... on Post { commentCount } } }", {"id": post["id"]}
    )

    assert refused["__typename"] == "NotFound"
    assert (deleted["__typename"], deleted["message"]) == (
        "NotFound",
        "The comment is deleted. You cannot see its post.",
    )
    assert left == {"node": {"commentCount": 0}}


@pytest.mark.parametrize("comment", ["", "PostComment", "x" * 500, MAX])
async def test_a_forged_id_of_a_comment_finds_nothing(members: GatewayClient, comment: str) -> None:
    post = await new_post(members, "max")

    answer = await call(members, "max", "deletePostComment", postId=post["id"], commentId=comment)

    assert answer["__typename"] == "NotFound"


async def test_posts_and_comments_are_bounded_by_the_minute_and_a_repeated_call_counts_once(
    gateway: GatewayClient,
) -> None:
    await join(gateway.db, "max")
    settings = with_settings(gateway.settings, SocialSettings, social_rate=2)
    clock = SettableClock()
    clock.advance(seconds=61 - clock.now().second)
    async with running(settings, clock=clock) as bounded:
        post = await new_post(bounded, "max", idempotencyKey="first")
        for _ in range(3):
            assert await new_post(bounded, "max", idempotencyKey="first") == post
        for number in range(2):
            await call(bounded, "max", "commentOnPost", postId=post["id"], text=str(number))
        await new_post(bounded, "max")

        text = {"detail": {"status": {"text": "x"}}}
        answers = [
            await bounded.as_caller("max").ask(POSTING["createPost"], {"input": text}),
            await bounded.as_caller("max").ask(
                POSTING["commentOnPost"], {"input": {"postId": post["id"], "text": "x"}}
            ),
        ]

    assert [answer.codes for answer in answers] == [["RATE_LIMITED"]] * 2
    assert all(0 < answer.body["errors"][0]["extensions"]["retryAfter"] <= 60 for answer in answers)
    assert await gateway.db["social.posts"].count_documents({}) == 2


async def test_a_post_wakes_its_delivery_and_the_metrics_show_what_is_pending(members: GatewayClient) -> None:
    await add_followers(members.db, "max", ["jared"])
    wakeup = members.state.resources.of(Wakeups).of("deliver-posts")
    wakeup.clear()

    await new_post(members, "max")

    await asyncio.wait_for(wakeup.wait(), 5)
    assert await lag(members) > 0
    (post,) = await members.db["social.posts"].find({}).to_list()
    await run_jobs(members, SettableClock(), "deliver-posts")
    assert await feeds_with(members.db, post) == {"jared"}
    assert await lag(members) == 0


async def test_a_post_of_a_member_whom_nobody_follows_leaves_nothing_to_the_jobs(members: GatewayClient) -> None:
    wakeup = members.state.resources.of(Wakeups).of("deliver-posts")
    wakeup.clear()

    post = await new_post(members, "max")

    (stored,) = await members.db["social.posts"].find({}).to_list()
    assert "fan_out" not in stored
    assert await lag(members) == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wakeup.wait(), 0.1)
    # Nobody but the author has it in the news feed.
    await circle(members.db, "jared", "max")
    assert await posts_in(members, "jared", "newsFeed") == []
    assert await posts_in(members, "max", "newsFeed") == [post["id"]]


async def test_the_posts_of_a_merged_author_without_followers_are_delivered(members: GatewayClient) -> None:
    await members.db["social.members"].update_one({"_id": "max"}, {"$set": {"is_merged": True}})

    await new_post(members, "max")
    await run_jobs(members, SettableClock(), "deliver-posts")

    (stored,) = await members.db["social.posts"].find({}).to_list()
    assert stored["is_merged"]
    assert "fan_out" not in stored


async def test_followers_get_a_post_at_once_and_not_in_the_rhythm_of_the_jobs(gateway: GatewayClient) -> None:
    await join(gateway.db, "max")
    await add_followers(gateway.db, "max", ["dwight"])
    async with running(replace(gateway.settings, jobs=True, job_seconds=3600.0)) as working:
        await new_post(working, "max")

        end, entry = time.monotonic() + 20, None
        while entry is None:
            assert time.monotonic() < end
            await asyncio.sleep(0.005)
            entry = await gateway.db["social.news"].find_one({"of": "dwight"})

    assert entry["by"] == "max"


async def lag(gateway: GatewayClient) -> float:
    """Returns the age of the oldest pending post, as `/metrics` shows it."""
    text = (await gateway.http.get("/metrics")).text
    (line,) = re.findall(r"^portico_fan_out_lag_seconds (.*)$", text, re.MULTILINE)
    return float(line)
