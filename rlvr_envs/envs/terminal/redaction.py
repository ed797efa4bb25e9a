"""What only the kernel knows, taken out of observations.

A number that the kernel makes up anew for each sandbox would make two runs of one
episode differ. Each row names the one form in which such a number is printed; text
that merely resembles it stays as it is. Ports, process ids, sizes and dates are
never touched: nothing tells them from an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Redaction:
    """One row.

    Attributes:
        needle: Text without which the pattern cannot match; spares the search.
    """

    name: str
    needle: str
    pattern: re.Pattern[str]
    replacement: str


_NAMESPACES = "cgroup|ipc|mnt|net|pid|pid_for_children|time|time_for_children|user|uts"

REDACTIONS = (
    Redaction(
        "namespace inodes, as /proc/<pid>/ns shows them",
        ":[40265",
        re.compile(rf"(?<![\w.-])({_NAMESPACES}):\[40265\d{{5}}\]"),
        r"\1:[<inode>]",
    ),
    Redaction(
        "pipe and socket inodes, as /proc/<pid>/fd shows them",
        ":[",
        re.compile(r"(^|-> )(pipe|socket):\[\d+\]$", re.MULTILINE),
        r"\1\2:[<inode>]",
    ),
    Redaction(
        "mount ids and devices, as /proc/<pid>/mountinfo shows them",
        " - ",
        re.compile(
            r"^\d+ \d+ \d+:\d+ (/\S* /\S* r[wo]\S*(?: \w+:\d+)* - \S+ \S+ r[wo]\S*)$",
            re.MULTILINE,
        ),
        r"<id> <id> <device> \1",
    ),
    Redaction(
        "start time and counters, as /proc/<pid>/stat shows them",
        " (",
        re.compile(
            r"^(\d+ \(.{1,64}\) [RSDZTtXxKWPI](?: -?\d+){6})(?: \d+){8}"
            r"((?: -?\d+){4}) \d+ \d+ \d+((?: \d+){28,30})$",
            re.MULTILINE,
        ),
        r"\1 <counters>\2 <start> <memory>\3",
    ),
    Redaction(
        "context switches, as /proc/<pid>/status shows them",
        "voluntary_ctxt_switches:\t",
        re.compile(r"^((?:non)?voluntary_ctxt_switches:\t)\d+$", re.MULTILINE),
        r"\1<count>",
    ),
    Redaction(
        "the device, as stat shows it",
        "Inode: ",
        re.compile(r"^(Device: )[\da-fx,h/]+d?(\s+Inode: \d+\s+Links: )", re.MULTILINE),
        r"\1<device>\2",
    ),
)


def redact(text: str) -> str:
    """Return a text without numbers that differ between two equal episodes."""
    for row in REDACTIONS:
        if row.needle in text:
            text = row.pattern.sub(row.replacement, text)
    return text
