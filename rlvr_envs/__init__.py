"""Environments with verifiable rewards for training multi-turn LLM agents.

Importing the package registers what registry.yaml names, and does nothing else.
"""

from __future__ import annotations

from rlvr_envs.registration import register_all

__version__ = "0.1.0"
__all__ = ["__version__", "register_all"]

register_all()
