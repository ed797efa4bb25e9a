from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.rollouts.episodes import Group, Job, Result, group_jobs, run_episode
from rlvr_envs.rollouts.parallel import Pool
from rlvr_envs.rollouts.policies import PolicySpec, Scripted, named
from rlvr_envs.trajectories.record import Kind
from tests.rollouts.toy import make_toy

WIN = PolicySpec(
    "win", lambda _env, _seed: Scripted([{"name": "add", "arguments": {"n": 10}}])
)
FOREVER = PolicySpec(
    "forever",
    lambda _env, _seed: lambda *_: {"name": "add", "arguments": {"n": 1}},
)


def test_a_result_says_what_the_judge_said(tmp_path: Path) -> None:
    result = run_episode(make_toy(record=tmp_path), Job("sum", 0, 7, WIN))

    line = result.to_json()
    assert line["status"] == "passed"
    assert (line["reward"], line["scorable"], line["turns"]) == (1.0, True, 2)
    assert Path(line["trajectory"]).parent == tmp_path
    assert (line["task"], line["seed"], line["policy"]) == ("sum", 7, "win")


def test_the_record_names_the_policy() -> None:
    env = make_toy()
    run_episode(env, Job("sum", 0, 7, WIN))

    (line,) = env.get_wrapper_attr("last_trajectory").of(Kind.POLICY)
    assert line["name"] == "win"


def test_a_used_up_budget_ends_the_episode() -> None:
    result = run_episode(make_toy(turns=3), Job("sum", 0, 0, FOREVER))

    assert (result.turns, result.reward) == (3, 0.0)


def test_a_broken_world_voids_the_episode_and_keeps_its_record(tmp_path: Path) -> None:
    env = make_toy(record=tmp_path, broken=2)
    result = run_episode(env, Job("sum", 0, 0, FOREVER))

    assert (result.status, result.scorable, result.turns) == ("infra_error", False, 1)
    assert "sandbox is gone" in result.reason
    assert result.trajectory is not None


def test_a_group_shares_its_instance_and_differs_in_seed() -> None:
    jobs = group_jobs("sum", instance=4, seed=10, size=3, policy=WIN)

    assert [(job.instance, job.seed) for job in jobs] == [(4, 10), (4, 11), (4, 12)]


def test_void_episodes_enter_no_statistic_of_a_group() -> None:
    job = Job("sum", 0, 0, WIN)
    won = Result(job, "passed", 1.0, scorable=True, turns=1)
    lost = Result(job, "failed", 0.0, scorable=True, turns=1)
    void = Result(job, "infra_error", 0.0, scorable=False, turns=1)

    line = Group((won, void, *[lost] * 6)).to_json()

    assert (line["episodes"], line["scorable"]) == (8, 7)
    assert line["pass_rate"] == pytest.approx(1 / 7)
    assert line["rewards"] == [1.0, None, *[0.0] * 6]
    assert line["advantages"][:3] == [pytest.approx(6 / 7, abs=1e-6), None, -0.142857]
    assert line["diagnostics"]["void"] == 1
    assert line["two_channels"][1] is None
    assert Group((void,)).to_json()["mean_reward"] is None


def test_a_group_has_every_estimators_advantages() -> None:
    job = Job("sum", 0, 0, WIN)
    terms = ((0.0, 0.0), (0.0, -0.5), (0.0, 0.0), (0.0, 0.0))
    results = tuple(
        Result(job, status, reward, scorable=True, turns=2, path_terms=path)
        for status, reward, path in zip(
            ("passed", "failed", "failed", "failed"), (1.0, 0, 0, 0), terms, strict=True
        )
    )

    line = Group(results).to_json()

    assert line["advantages"] == [0.75, -0.25, -0.25, -0.25]
    assert line["grpo_advantages"][0] == pytest.approx(0.75 / 0.4330127, abs=1e-5)
    assert line["two_channels"][0] == [0.09375, 0.09375]
    assert line["two_channels"][1] == [-0.03125, -0.53125]


def test_the_path_channel_stays_out_of_the_reward() -> None:
    job = Job("sum", 0, 0, WIN)
    clean = Result(job, "passed", 1.0, scorable=True, turns=1, path_reward=0.25)
    dirty = Result(job, "passed", 1.0, scorable=True, turns=1, path_reward=-0.75)

    line = Group((clean, dirty)).to_json()

    assert line["rewards"] == [1.0, 1.0]
    assert line["path_advantages"] == [0.5, -0.5]
    assert line["diagnostics"]["dead"] == "all_pass"


def test_a_pool_yields_in_order_and_owns_an_environment_a_thread() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(threading.get_ident())
        return make_toy()

    jobs = [Job("sum", number, number, WIN) for number in range(12)]
    seen: list[Result] = []
    with Pool(make, size=3) as pool:
        results = list(pool.play(jobs, done=seen.append))

    assert [item.job.seed for item in results] == list(range(12))
    assert len(seen) == 12
    assert len(made) == len(set(made)) <= 3


def test_a_callers_mistake_in_one_job_is_raised_and_drops_the_rest() -> None:
    jobs = [Job("none", 0, 0, WIN), *[Job("sum", 0, 0, WIN)] * 50]
    with Pool(make_toy, size=1) as pool, pytest.raises(ValueError, match="no task"):
        list(pool.play(jobs))


def test_a_closed_pool_gives_up_what_it_plays() -> None:
    began = threading.Event()

    def slow(*_: Any) -> Any:
        began.set()
        return {"name": "add", "arguments": {"n": 1}}

    pool = Pool(lambda: make_toy(turns=10**9), size=1)
    spec = PolicySpec("slow", lambda _env, _seed: slow)
    results = pool.play([Job("sum", 0, 0, spec)])

    def close_it() -> None:
        began.wait(10)
        pool.close()

    thread = threading.Thread(target=close_it)
    thread.start()

    (result,) = list(results)
    thread.join(10)

    assert result.status == "infra_error"
    assert "stopped" in result.reason


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Pool(make_toy, size=0)


def test_null_earns_nothing() -> None:
    assert run_episode(make_toy(), Job("sum", 0, 0, named("null"))).reward == 0.0
