"""A command line to call, in this process, against the toy environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.cli import main

TOY = "tests.rollouts.toy:toy/Sum-v0"


@dataclass(frozen=True)
class Said:
    """What a call of the command line left."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as one object a line; anything else there fails."""
        return [json.loads(line) for line in self.out.splitlines()]


Call = Callable[..., Said]


@pytest.fixture
def rlvr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return what calls ``rlvr`` with words."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))

    def call(*words: object) -> Said:
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        return Said(status, captured.out, captured.err)

    return call
