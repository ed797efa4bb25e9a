"""Small task folders for tests."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "task.yaml": """title: Say hello
difficulty: easy
tags: [text]
workdir: /app
epoch: "2024-01-15T09:00:00Z"
version: 1
budget: {turns: 5}
verification:
  mode: artifacts
  artifacts: [/app/out.txt]
  writes: [/app/**]
  checks:
    - kind: file_content
      name: words
      options: {path: /app/out.txt, equals: {hidden: word}}
""",
    "instruction.md": "Write {word} to\n`/app/out.txt`; braces stay: {{}}.\n",
    "generator.py": '''"""Draws a word."""

from rlvr_envs.tasks.making import pick, text
from rlvr_envs.tasks.task import Recipe


def generate(rng, number):
    word = pick(rng, ["one", "two", "three", "four", "five", "six"])
    return Recipe(files=(text("/app/in.txt", word),), values={"word": word}, hidden={"word": word})


def hidden(rng, recipe):
    return {"secret": int(rng.integers(1 << 40))}
''',
    "gold.yaml": """- bash: {command: "echo {word} ${word} {other} > /app/out.txt"}
- submit: {}
""",
    "cheats.yaml": """- name: first
  flag: [TOOL_SHADOW]
  calls:
    - submit: {}
- name: second
  calls:
    - exec: {argv: [echo, "{word}"]}
    - submit: {}
""",
    "twins.yaml": """- name: other
  calls:
    - submit: {}
""",
    "verifier/test_it.py": "def test_it():\n    pass\n",
}


def write_task(
    folder: Path, *, name: str = "hello", changed: dict[str, str | None] | None = None
) -> Path:
    """Write a task folder; ``changed`` replaces files, or leaves out those of None."""
    where = folder / name
    for path, content in {**FILES, **(changed or {})}.items():
        if content is not None:
            (where / path).parent.mkdir(parents=True, exist_ok=True)
            (where / path).write_text(content)
    return where


def with_line(file: str, old: str, new: str) -> dict[str, str | None]:
    """Return a change that replaces one piece of a file."""
    assert FILES[file].count(old) == 1, old
    return {file: FILES[file].replace(old, new)}
