"""What tests of importing share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.runner import close_pools
from rlvr_envs.sandbox.runtime import close_runtimes


@pytest.fixture(scope="session")
def namespaces() -> Iterator[None]:
    """The default backend, where this machine can run it."""
    try:
        NamespaceSandbox.check()
    except MissingRequirement as error:
        pytest.skip(str(error))
    yield
    close_pools()
    close_runtimes()
