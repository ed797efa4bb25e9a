from __future__ import annotations

import socket
from typing import Any

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.rollouts.endpoint import NUDGE, Endpoint, endpoint_policy
from rlvr_envs.rollouts.episodes import Job, Result, run_episode
from rlvr_envs.trajectories.record import Kind
from tests.rollouts.chat_server import Refusal, calls, roles, says, serving
from tests.rollouts.toy import make_toy

AT_ONCE = {"retry-after-ms": "1"}


def play(url: str, env: Any = None, **kwargs: Any) -> Result:
    endpoint = Endpoint(base_url=url, model="tiny", **{"retries": 2, **kwargs})
    job = Job("sum", 0, 5, endpoint_policy(endpoint))
    return run_episode(env or make_toy(), job)


def test_a_model_solves_a_task_by_tool_calls() -> None:
    with serving(calls(("add", {"n": 10})), calls(("submit", {}))) as chat:
        result = play(chat.url, api_key="secret")

    assert (result.status, result.reward, result.turns) == ("passed", 1.0, 2)
    assert chat.keys == ["Bearer secret"] * 2
    first, second = chat.requests
    assert (first["model"], first["seed"]) == ("tiny", 5)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["add", "submit"]
    assert roles(first["messages"]) == ["system", "user"]
    assert first["messages"][1]["content"] == "Reach 10."
    assert roles(second["messages"]) == ["system", "user", "assistant", "tool"]
    assert second["messages"][3]["content"] == "total 10"


def test_several_calls_in_one_reply_become_a_turn_each() -> None:
    batch = calls(("add", {"n": 3}), ("add", {"n": 3}), ("add", {"n": 4}))
    with serving(batch, calls(("submit", {}))) as chat:
        result = play(chat.url)

    assert (result.reward, result.turns) == (1.0, 4)
    answers = [m["content"] for m in chat.requests[1]["messages"][3:]]
    assert answers == ["total 3", "total 6", "total 10"]


def test_a_reply_without_a_call_is_nudged_and_then_submitted() -> None:
    with serving(says("hm"), calls(("add", {"n": 10})), says("a"), says("b")) as chat:
        result = play(chat.url)

    assert (result.status, result.turns) == ("passed", 2)
    assert [m["content"] for m in chat.requests[1]["messages"][2:]] == ["hm", NUDGE]
    assert not chat.replies


def test_arguments_go_to_the_environment_as_the_model_wrote_them() -> None:
    env = make_toy()
    broken = calls(("add", '{"n": 1, }'))
    with serving(broken) as chat, pytest.raises(ValueError, match="double quotes"):
        play(chat.url, env)


def test_what_the_model_said_is_in_the_trajectory_with_its_tokens() -> None:
    env = make_toy()
    with serving(calls(("submit", {}), content="I give up")) as chat:
        play(chat.url, env)

    (message,) = env.get_wrapper_attr("last_trajectory").of(Kind.MESSAGE)
    assert message["content"] == "I give up"
    assert message["usage"]["total_tokens"] == 18
    assert message["turn"] == 0


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(status: int) -> None:
    busy = Refusal(status, AT_ONCE)
    with serving(busy, busy, calls(("submit", {}))) as chat:
        result = play(chat.url)

    assert result.status == "failed"
    assert len(chat.keys) == 3


def test_a_server_that_stays_busy_voids_the_episode() -> None:
    with serving(*[Refusal(503, AT_ONCE)] * 3) as chat:
        result = play(chat.url)

    assert (result.status, result.scorable) == ("infra_error", False)
    assert "503" in result.reason


def test_a_wrong_key_is_the_callers_mistake() -> None:
    with (
        serving(Refusal(401)) as chat,
        pytest.raises(MissingRequirement, match=r"401.*Remedy: check --model"),
    ):
        play(chat.url)


def test_no_server_is_the_callers_mistake() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(MissingRequirement, match="Nothing answers"):
            play(url, retries=0)


def test_an_answer_that_is_no_completion_voids_the_episode() -> None:
    with serving({"role": "assistant"}) as chat:
        chat.answer = lambda body, key: (200, {}, {"choices": []})  # type: ignore[method-assign]  # a server of another mind
        result = play(chat.url)

    assert result.status == "infra_error"
    assert "without a choice" in result.reason
