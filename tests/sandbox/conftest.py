"""What tests of sandboxes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Places, Snapshot
from rlvr_envs.sandbox.conformance_kit import Bench
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.runtime import close_runtimes


@pytest.fixture(scope="session")
def namespaces() -> Iterator[type[NamespaceSandbox]]:
    """The backend, where this machine can run it."""
    try:
        NamespaceSandbox.check()
    except MissingRequirement as error:
        pytest.skip(str(error))
    yield NamespaceSandbox
    close_runtimes()


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """The machine's store, and a run folder of the tests' own."""
    return Places(run=Path(tmp_path_factory.mktemp("run")))


@pytest.fixture
def bench(
    namespaces: type[NamespaceSandbox], base_snapshot: Snapshot, places: Places
) -> Bench:
    """The namespaces backend on the default image."""
    return Bench(namespaces, base_snapshot, places)
