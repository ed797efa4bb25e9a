"""The shadow audit: people score a sample again, and the agreement is counted."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlvr_envs.records import digest_of
from rlvr_envs.rewards.tickets.guardrails import GUARDRAILS
from rlvr_envs.rewards.tickets.monitors import Scored
from rlvr_envs.rewards.tickets.reading import refuse

SHARE = 0.01
"""Share of scored tickets that people look at."""

COLUMNS = (
    "episode",
    "ticket",
    "disposition",
    "reply",
    "final",
    "success",
    "guardrails",
    "human_success",
    "human_guardrails",
    "human_note",
)
"""The last three are for people: ``yes`` or ``no``; guardrail names or ``none``; words."""

_NAMES = frozenset(row.name for row in GUARDRAILS)
_ANSWERS = {"yes": True, "no": False}


def sample(
    scored: Sequence[Scored], *, seed: int, share: float = SHARE
) -> tuple[Scored, ...]:
    """Choose which tickets people look at, in the order given.

    The choice depends on seed and episode names, not on their order or on the scores.

    Args:
        scored: Episode names are unique.
        seed: Of the audit; kept from whoever trains.
        share: In (0, 1]; rounded up, so that something is chosen if anything is there.

    Raises:
        ValueError: If the share is out of range.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"A share lies in (0, 1], not at {share!r}.")
    drawn = sorted(scored, key=lambda item: digest_of([str(seed), item.episode]))
    chosen = {item.episode for item in drawn[: math.ceil(share * len(scored))]}
    return tuple(item for item in scored if item.episode in chosen)


def audit_csv(chosen: Iterable[Scored]) -> str:
    """Return the sheet for people to fill; the human columns are empty."""
    text = io.StringIO()
    sheet = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(_row(item) for item in chosen)
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far people and rules agree.

    Attributes:
        sampled: Rows of the sheet.
        filled: Rows whose ``human_success`` is filled; the shares are over these.
        success: Share with the same verdict; 0.0 if none is filled.
        guardrails: Share with the same set of guardrails, over the rows where people
            named one or wrote ``none``; 0.0 if there are none.
        disagreeing: Episodes with another verdict or another set.
    """

    sampled: int
    filled: int
    success: float
    guardrails: float
    disagreeing: tuple[str, ...]


def agreement(text: str) -> Agreement:
    """Count what people filled in.

    Raises:
        ValueError: If a column is missing, or an answer is neither blank nor known;
            names row and column.
    """
    sheet = csv.DictReader(io.StringIO(text))
    lacking = set(COLUMNS) - set(sheet.fieldnames or ())
    if lacking:
        raise refuse("audit sheet", f"lacks the columns {', '.join(sorted(lacking))}.")
    rows = [_Answer.of(row, n) for n, row in enumerate(sheet, start=2)]
    verdicts = [row for row in rows if row.verdict is not None]
    named = [row for row in verdicts if row.named is not None]
    return Agreement(
        sampled=len(rows),
        filled=len(verdicts),
        success=_share([row.verdict == row.success for row in verdicts]),
        guardrails=_share([row.named == row.fired for row in named]),
        disagreeing=tuple(row.episode for row in verdicts if not row.agrees),
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    episode: str
    success: bool
    fired: frozenset[str]
    verdict: bool | None
    named: frozenset[str] | None

    @property
    def agrees(self) -> bool:
        return self.verdict == self.success and self.named in (None, self.fired)

    @classmethod
    def of(cls, row: dict[str, str], line: int) -> _Answer:
        where = f"audit sheet row {line}"
        said = (row["human_success"] or "").strip().lower()
        if said and said not in _ANSWERS:
            raise refuse(f"{where}.human_success", f"is yes or no, not {said!r}.")
        return cls(
            episode=row["episode"],
            success=row["success"] == "yes",
            fired=frozenset(row["guardrails"].split()) - {"none"},
            verdict=_ANSWERS.get(said),
            named=_named(row["human_guardrails"] or "", where),
        )


def _named(text: str, where: str) -> frozenset[str] | None:
    words = frozenset(text.replace(",", " ").lower().split())
    strange = sorted(words - _NAMES - {"none"})
    if strange:
        raise refuse(f"{where}.human_guardrails", f"does not know {strange[0]!r}.")
    return words - {"none"} if words else None


def _row(item: Scored) -> dict[str, str]:
    score = item.score
    fired = " ".join(guard.name for guard in score.fired)
    return {
        "episode": _harmless(item.episode),
        "ticket": _harmless(score.ticket),
        "disposition": str(score.disposition),
        "reply": _harmless(item.reply),
        "final": f"{score.final:.4f}",
        "success": "yes" if score.success else "no",
        "guardrails": fired or "none",
    }


def _harmless(text: str) -> str:
    """Keep a spreadsheet from running a reply that looks like a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0
