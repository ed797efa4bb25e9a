"""The namespaces backend keeps every promise of the contract."""

from __future__ import annotations

import pytest

from rlvr_envs.sandbox.conformance import CHECKS, Bench, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_namespaces(check: Check, bench: Bench) -> None:
    assert check.applies(bench.backend)

    check.run(bench)
