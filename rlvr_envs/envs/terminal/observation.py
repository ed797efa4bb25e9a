r"""From bytes that a program wrote to text that an agent reads.

The rules, in order:

* Bytes that are not UTF-8 are shown as ``\xHH``.
* Terminal sequences (colours, cursor movement, titles, charsets) and BEL are
  removed; what they coloured, concealed or moved stays. A sequence that does not
  end is not one: its ESC is shown as ``\x1b`` and nothing behind it vanishes.
* ``x`` BS ``x`` and ``_`` BS ``x`` (overstriking) are ``x``; any other BS is shown.
* CR LF is a newline. A line that was overwritten by CR shows its first and its last
  state, and how many states stood between them.
* Whatever else cannot be seen is written out (`tools.text.show_invisible`).
* Numbers that only the kernel knows are redacted (`redaction`).

A file is data and no terminal: there, only the first and the last two rules hold.
"""

from __future__ import annotations

import re

from rlvr_envs.envs.terminal.redaction import redact
from rlvr_envs.tools.text import decode, show_invisible

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences
    r"|\x1b\][^\x00-\x1f\x7f]{0,4096}(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[PX^_][^\x00-\x1f\x7f]{0,4096}\x1b\\"  # device strings
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # single shifts, charsets
    r"|\x07"
)
_BOLD = re.compile(r"([^\x08])(?:\x08\1)+")
_UNDERLINED = re.compile(r"_\x08(?=.)")
_RETURNS = re.compile(r"\r+\n")


def render_output(data: bytes) -> str:
    """Return what a program printed, as text."""
    text = decode(data)
    if "\x1b" in text or "\x07" in text:
        text = _SEQUENCE.sub("", text)
    if "\b" in text:
        text = _BOLD.sub(r"\1", _UNDERLINED.sub("", text))
    if "\r" in text:
        lines = _RETURNS.sub("\n", text).split("\n")
        text = "\n".join(_overwritten(line) if "\r" in line else line for line in lines)
    return redact(show_invisible(text))


def render_file(data: bytes) -> str:
    """Return what a file holds, as text."""
    return redact(show_invisible(decode(data)))


def without_last_newline(text: str) -> str:
    """Return a text without the one newline that ends its last line."""
    return text.removesuffix("\n")


def with_notices(body: str, notices: list[str]) -> str:
    """Return a body and the harness's remarks, each in brackets on its own line."""
    lines = [f"[{notice}]" for notice in notices]
    return "\n".join([body, *lines] if body else lines)


def _overwritten(line: str) -> str:
    states = [state for state in line.split("\r") if state.strip()]
    if len(states) > 2:
        states[1:-1] = [f"[{len(states) - 2} overwritten states of this line]"]
    return "\n".join(states)
