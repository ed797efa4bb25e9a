"""Where a command speaks: results on standard output, all else on standard error.

With ``--json`` results are one object a line and nothing else; without, they are
tables for people. Progress and messages never mix with either.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress import TimeRemainingColumn as TimeLeft
from rich.table import Table
from rich.text import Text

from rlvr_envs.trajectories.encoding import plain

_PLAIN_WIDTH = 140
_WHOLE_CHARS = 20

Advance = Callable[[str], None]
"""Says that one more piece of work is done, and a word on it."""


class Shell:
    """Speaks for one command.

    Args:
        as_json: Print objects in place of tables.
        out: Results.
        err: Progress and messages.
    """

    def __init__(
        self, *, as_json: bool, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.as_json = as_json
        self._out = out or sys.stdout
        self._console = Console(file=self._out, highlight=False)
        if not self._console.is_terminal:
            self._console.width = max(self._console.width, _PLAIN_WIDTH)
        self._err = Console(file=err or sys.stderr, highlight=False)

    def emit(self, line: Mapping[str, Any]) -> None:
        """Print one object, if objects are wanted."""
        if self.as_json:
            print(json.dumps(plain(line)), file=self._out, flush=True)

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
    ) -> None:
        """Print a table, if tables are wanted; styled cells are `Text`."""
        if self.as_json:
            return
        table = Table(title=title, title_justify="left", title_style="bold")
        cells = [[cell(item) for item in row] for row in rows]
        for number, column in enumerate(columns):
            longest = max((len(row[number]) for row in cells), default=0)
            table.add_column(column, overflow="fold", no_wrap=longest <= _WHOLE_CHARS)
        for row in cells:
            table.add_row(*row)
        self._console.print(table)

    def text(self, *parts: str) -> None:
        """Print plain lines for people; nothing is taken for markup."""
        if not self.as_json:
            for part in parts:
                self._console.print(Text(part), soft_wrap=True)

    def say(self, message: str) -> None:
        """Print a message on standard error."""
        self._err.print(Text(message), soft_wrap=True)

    @contextmanager
    def progress(self, total: int, doing: str) -> Iterator[Advance]:
        """Show a bar on a terminal, and a line for every tenth elsewhere."""
        if not self._err.is_terminal:
            yield self._spoken(total, doing)
            return
        columns = (TextColumn("{task.description}"), BarColumn())
        with Progress(
            *columns,
            MofNCompleteColumn(),
            TimeLeft(),
            console=self._err,
            transient=True,
        ) as bar:
            task = bar.add_task(doing, total=total)
            yield lambda word: bar.update(
                task, advance=1, description=f"{doing} {word}".strip()
            )

    def _spoken(self, total: int, doing: str) -> Advance:
        done, every, lock = 0, -(-total // 10), threading.Lock()

        def advance(_word: str) -> None:
            nonlocal done
            with lock:
                done += 1
                if done % every == 0 or done == total:
                    self.say(f"{doing}: {done} of {total}")

        return advance


def cell(value: object) -> Text:
    """Return a table cell; lists are joined, ``None`` is a dash."""
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, float):
        return Text(f"{value:.4g}")
    if isinstance(value, (list, tuple)):
        return Text(", ".join(str(item) for item in value) or "-")
    return Text(str(value))


_STYLES = {
    "passed": "green",
    "ok": "green",
    "failed": "yellow",
    "tampered": "red",
    "infra_error": "magenta",
    "missing": "red",
}


def status(word: str) -> Text:
    """Return a status word in its colour."""
    return Text(word, style=_STYLES.get(word, ""))
