"""Peers: what a user would pick instead, where it is installed.

Each starts a sandbox over the same root, hears a shell's first word, and removes it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlvr_envs.cli.benches.floors import docker_once, first_word
from rlvr_envs.cli.benches.measuring import WARM_UPS, Samples, Setting
from rlvr_envs.cli.benches.reset import base_root
from rlvr_envs.cli.targets import task_names
from rlvr_envs.errors import MissingRequirement

Act = Callable[[], Any]
_WORD = ("/bin/bash", "--norc", "--noprofile", "-c", "echo ok")


def measure(setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one line for ours and one for each peer, timed in turn."""
    with ExitStack() as stack:
        acts, notes = _acts(setting, stack)
        samples = {name: Samples() for name in acts}
        for number in range(-min(WARM_UPS, setting.rounds), setting.rounds):
            for name, act in acts.items():
                samples[name].time(act)
                if number < 0:
                    samples[name].values_ms.clear()
            if number >= 0:
                setting.tick("")
    for name, taken in samples.items():
        yield setting.line("peers", peer=name, note="", **taken.to_json())
    for name, note in notes.items():
        yield setting.line("peers", peer=name, note=note, **Samples().to_json())


def _acts(setting: Setting, stack: ExitStack) -> tuple[dict[str, Act], dict[str, str]]:
    env = setting.make()
    stack.callback(env.close)
    options = setting.options(task_names(env, setting.args.task)[0])
    acts: dict[str, Act] = {"ours": lambda: _ours(env, options)}
    notes: dict[str, str] = {}
    root = base_root(setting)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    makers: Mapping[str, Callable[[], Act]] = {
        "docker": lambda: docker_once(
            setting.args.docker_host, setting.args.docker_image, root
        ),
        "bwrap": lambda: _bwrap(root),
        "crun": lambda: _oci("crun", root, folder / "crun"),
        "runc": lambda: _oci("runc", root, folder / "runc"),
    }
    for name, make in makers.items():
        try:
            act = make()
            act()
            acts[name] = act
        except (MissingRequirement, OSError) as error:
            notes[name] = str(error)
    return acts, notes


def _ours(env: Any, options: dict[str, Any]) -> None:
    env.reset(seed=0, options=options)
    if "bash" in {tool.name for tool in env.get_wrapper_attr("tool_specs")}:
        env.step({"name": "bash", "arguments": {"command": "echo ok"}})


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise MissingRequirement(
            f"{name} is not installed.", remedy=f"install {name}, or leave peers out"
        )
    return found


def _bwrap(root: Path) -> Act:
    argv = [_tool("bwrap"), "--unshare-all", "--die-with-parent"]
    argv += ["--overlay-src", str(root), "--tmp-overlay", "/"]
    argv += ["--proc", "/proc", "--dev", "/dev", *_WORD]
    return lambda: first_word(argv)


def _oci(runtime: str, root: Path, bundle: Path) -> Act:
    """Return a run of an OCI runtime on a read-only root with a tmpfs over /tmp."""
    tool = _tool(runtime)
    bundle.mkdir()
    subprocess.run(
        [tool, "spec"], cwd=bundle, check=True, timeout=30
    )  # a peer's own command
    config = json.loads((bundle / "config.json").read_text())
    config["process"] |= {"terminal": False, "args": list(_WORD)}
    config["root"] = {"path": str(root), "readonly": True}
    (bundle / "config.json").write_text(json.dumps(config))
    return lambda: first_word([tool, "run", f"rlvr-peer-{runtime}"], cwd=bundle)
