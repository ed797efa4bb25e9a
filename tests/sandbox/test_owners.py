"""Names say whose a thing is, and whether its owner is gone."""

from __future__ import annotations

import os
import subprocess

import pytest

from rlvr_envs.sandbox.owners import is_abandoned, owner_name, start_ticks


def test_our_own_things_are_not_abandoned() -> None:
    assert not is_abandoned(owner_name())
    assert not is_abandoned(f"{owner_name()}-17")


def test_a_dead_process_abandons_its_things() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    space = owner_name().split("-")[0]

    assert is_abandoned(f"{space}-{process.pid}-1-3")


def test_a_pid_that_was_used_again_is_another_owner() -> None:
    space, pid, _ = owner_name().split("-")

    assert is_abandoned(f"{space}-{pid}-1")


def test_what_cannot_be_judged_is_left_alone() -> None:
    _, _, started = owner_name().split("-")

    assert not is_abandoned(f"1-999999-{started}"), "another pid namespace"
    assert not is_abandoned("m"), "not a name of ours"


def test_a_process_that_is_not_there_has_no_start() -> None:
    with pytest.raises(ProcessLookupError):
        start_ticks(0)

    assert start_ticks(os.getpid()) > 0
