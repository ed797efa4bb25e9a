"""What tests of several rooms share."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import Places, Snapshot
from rlvr_envs.snapshots.store import ImageStore

DEFAULT_IMAGE = "base"

# A job that a shell started in the background ignores it; so would all children.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("project", deadline=None, print_blob=True)
settings.load_profile("project")


@pytest.fixture(scope="session")
def base_snapshot() -> Snapshot:
    """The default image of this machine's store, as it was built."""
    try:
        return Snapshot((ImageStore(Places()).layer(DEFAULT_IMAGE),))
    except (SnapshotError, PermissionError) as error:
        pytest.skip(f"the default image is not there: {error}")
