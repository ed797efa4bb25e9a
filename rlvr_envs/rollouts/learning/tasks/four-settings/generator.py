"""Four files with a wrong value each."""

from rlvr_envs.tasks.making import text
from rlvr_envs.tasks.task import Recipe


def generate(rng, number):
    names = ("host", "port", "mode", "level")
    return Recipe(files=tuple(text(f"/app/conf/{name}", "unset\n") for name in names))
