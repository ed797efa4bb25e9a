"""The archive's first line."""

from rlvr_envs.sandbox.inside.zygote import start

start()
