"""Clones made ahead of their episodes, so that a reset only takes one."""

from __future__ import annotations

from rlvr_envs.sandbox.postgres.clone import Clone, make_clone
from rlvr_envs.sandbox.postgres.roles import Access
from rlvr_envs.sandbox.postgres.templates import Template
from rlvr_envs.sandbox.warming import WarmPool


class ClonePool(WarmPool[Clone]):
    """A few warm clones of one template; the server makes one at a time anyway.

    Args:
        template: It outlives the pool.
        access: The agent's role in every clone.
        size: Clones that stand ready, at least 1; each holds a database and two
            idle sessions, or three.

    Raises:
        ValueError: If the size is below 1.
    """

    def __init__(self, template: Template, access: Access, *, size: int = 4) -> None:
        def make() -> Clone:
            return make_clone(template.cluster.filler(), template, access)

        super().__init__(make, size=size, what="database")
