"""Mock services above an episode's database: honest HTTP, in this process."""

from rlvr_envs.envs.sql_rest.services.catalogue import SERVICES, open_service

__all__ = ["SERVICES", "open_service"]
