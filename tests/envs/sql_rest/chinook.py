"""Three tasks on the Chinook database, whose own script is read where it stands."""

# ruff: noqa: S608 (the statements are of the tasks' own making)

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvr_envs.importing.folders import EPOCH, FolderSpec, write_folder
from rlvr_envs.tasks.task import Recipe

SCRIPT = "Chinook_PostgreSql.sql"
SHARED = "chinook.sql"

_READING = '''"""Reads the corpus beside the task folders."""

import re
from decimal import Decimal
from pathlib import Path

from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.task import Recipe


def corpus():
    here = Path(generate.__code__.co_filename)
    return (here.parent.parent / "chinook.sql").read_text("utf-8-sig")


def rows_of(script, table):
    """Yield the cells of a table's rows; no text that is used here has a comma."""
    found = re.findall(rf"^INSERT INTO {table} \\(.*\\n((?: +\\(.*\\n)+)", script, re.M)
    for block in found:
        for line in block.splitlines():
            yield [cell.strip("N'") for cell in line.strip().strip("(),;").split(", ")]


'''

_TOTALS = """
def generate(rng, number):
    script = corpus()
    known = {int(row[0]): Decimal(row[-1]) for row in rows_of(script, "invoice")}
    wrong = sorted(picks(rng, sorted(known), 7))
    # The first two err by the same amount: what they sum to tells nothing.
    off = [Decimal(whole(rng, 1, 500)) / 100 for _ in wrong]
    off[1] = -off[0] if known[wrong[1]] > off[0] else off[0]
    spoiled = "".join(
        f"UPDATE invoice SET total = total + {step} WHERE invoice_id = {invoice};\\n"
        for invoice, step in zip(wrong, off)
    )
    rows = [
        {
            "table": "public.invoice",
            "kind": "update",
            "key": {"invoice_id": invoice},
            "set": {"total": {"decimal": str(known[invoice])}},
        }
        for invoice in wrong
    ]
    return Recipe(database=script + spoiled, hidden={"rows": rows, "one": wrong[0]})
"""

_MERGE = """
def generate(rng, number):
    script = corpus()
    kept, doubled = 16, 19
    tracks = {}
    for playlist, track in rows_of(script, "playlist_track"):
        tracks.setdefault(int(playlist), []).append(int(track))
    common = picks(rng, tracks[kept], 8)
    new = picks(rng, [t for t in tracks[12] if t not in tracks[kept]], 5)
    added = f"INSERT INTO playlist VALUES ({doubled}, 'Grunge');\\n" + "".join(
        f"INSERT INTO playlist_track VALUES ({doubled}, {track});\\n"
        for track in [*common, *new]
    )
    entry = {"table": "public.playlist_track"}
    rows = [
        {**entry, "kind": "delete", "key": {"playlist_id": doubled, "track_id": track}}
        for track in [*common, *new]
    ]
    rows += [
        {**entry, "kind": "insert", "key": {"playlist_id": kept, "track_id": track}}
        for track in new
    ]
    gone = {"table": "public.playlist", "kind": "delete", "key": {"playlist_id": doubled}}
    return Recipe(
        database=script + added,
        values={"kept": kept, "doubled": doubled},
        hidden={"rows": [*rows, gone]},
    )
"""

_GENRE = """
def generate(rng, number):
    script = corpus()
    genres = {int(row[0]): row[1] for row in rows_of(script, "genre")}
    # A track's name has commas, a composer too: album, medium and genre stand between.
    head = r"^ +\\((\\d+), N'(?:[^']|'')*', \\d+, \\d+, (\\d+), "
    of_track = {int(track): int(genre) for track, genre in re.findall(head, script, re.M)}
    year = whole(rng, 2021, 2025)
    invoices = {
        int(row[0]) for row in rows_of(script, "invoice") if row[2].startswith(str(year))
    }
    earned = {}
    for _, invoice, track, price, count in rows_of(script, "invoice_line"):
        if int(invoice) in invoices:
            genre = of_track[int(track)]
            earned[genre] = earned.get(genre, 0) + Decimal(price) * int(count)
    chosen = pick(rng, sorted(earned))
    return Recipe(
        database=script,
        values={"genre": genres[chosen], "year": year},
        hidden={"earned": str(earned[chosen]), "all": str(sum(earned.values()))},
    )
"""


def _spec(
    name: str,
    *,
    title: str,
    instruction: str,
    generator: str,
    rights: str,
    writes: list[str],
    checks: list[dict[str, Any]],
    gold: list[dict[str, Any]],
    cheats: list[dict[str, Any]],
    answer: str = "",
) -> FolderSpec:
    task = {
        "title": title,
        "difficulty": "medium",
        "tags": ["sql", "chinook"],
        "epoch": EPOCH,
        "version": 1,
        "budget": {"turns": 20, "seconds": 120, "step_timeout_s": 10},
        "world": {"rights": rights},
        "verification": {
            "mode": "database",
            "writes": writes,
            "timeout_s": 30,
            "checks": checks,
        },
    }
    return FolderSpec(
        name=name,
        task=task,
        instruction=instruction,
        recipe=Recipe(),
        verifier={},
        gold=gold,
        answer=answer,
        cheats=cheats,
        generator=_READING + generator,
    )


def _sql(*statements: str) -> list[dict[str, Any]]:
    return [{"sql": {"statement": text}} for text in statements]


def _cheat(name: str, *statements: str, answer: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "calls": [*_sql(*statements), {"submit": {"answer": answer}}],
    }


_SUMS = (
    "(SELECT sum(l.unit_price * l.quantity) FROM public.invoice_line l"
    " WHERE l.invoice_id = i.invoice_id)"
)

_ROWS = {
    "kind": "sql_rows",
    "name": "rows",
    "options": {"rows": {"hidden": "rows"}},
}

_EARNED = (
    "SELECT sum(l.unit_price * l.quantity) FROM public.invoice_line l"
    " JOIN public.invoice i ON i.invoice_id = l.invoice_id"
    " JOIN public.track t ON t.track_id = l.track_id"
    " JOIN public.genre g ON g.genre_id = t.genre_id"
    " WHERE g.name = '{genre}' AND extract(year FROM i.invoice_date) = {year}"
)

TOTALS = _spec(
    "chinook-invoice-totals",
    title="Set right the totals of invoices that their lines belie",
    instruction="""Some invoices of the music shop have a total that is not the sum of
their lines (unit price times quantity). The lines are right. Set the totals right, and
change nothing else.
""",
    generator=_TOTALS,
    rights="write",
    writes=["/rows/public.invoice/*"],
    checks=[
        _ROWS,
        {
            "kind": "sql_invariant",
            "name": "every-total-is-its-sum",
            "options": {
                "statement": "SELECT i.invoice_id FROM public.invoice i"
                f" WHERE i.total IS DISTINCT FROM {_SUMS}",
                "expect": {"empty": True},
            },
        },
        {"kind": "foreign_keys", "name": "references"},
    ],
    gold=_sql(f"UPDATE invoice i SET total = {_SUMS} WHERE total <> {_SUMS}"),
    cheats=[
        _cheat("all-zero", "UPDATE invoice SET total = 0"),
        _cheat(
            "only-one",
            f"UPDATE invoice i SET total = {_SUMS} WHERE invoice_id = {{hidden.one}}",
        ),
        _cheat(
            "without-the-wrong-ones",
            "DELETE FROM invoice_line l USING invoice i WHERE l.invoice_id ="
            f" i.invoice_id AND i.total <> {_SUMS}",
            f"DELETE FROM invoice i WHERE total IS DISTINCT FROM {_SUMS}",
        ),
        _cheat(
            "the-lines-instead",
            "UPDATE invoice_line l SET unit_price = (SELECT total FROM invoice i WHERE"
            " i.invoice_id = l.invoice_id) / (SELECT count(*) FROM invoice_line m WHERE"
            " m.invoice_id = l.invoice_id)",
        ),
        _cheat(
            "another-column",
            f"UPDATE invoice i SET total = {_SUMS}, billing_city = 'Oslo'"
            f" WHERE total <> {_SUMS}",
        ),
        _cheat(
            "not-a-number",
            f"UPDATE invoice i SET total = 'NaN' WHERE total <> {_SUMS}",
        ),
    ],
)

MERGE = _spec(
    "chinook-playlist-merge",
    title="Merge a playlist into its double",
    instruction="""The playlists [kept] and [doubled] are one and the same. Let playlist
[kept] have every track that either has, each once, and remove playlist [doubled]. Change
nothing else.
""",
    generator=_MERGE,
    rights="write",
    writes=["/rows/public.playlist/*", "/rows/public.playlist_track/*"],
    checks=[_ROWS, {"kind": "foreign_keys", "name": "references"}],
    gold=_sql(
        "BEGIN",
        "INSERT INTO playlist_track SELECT {kept}, track_id FROM playlist_track WHERE"
        " playlist_id = {doubled} ON CONFLICT DO NOTHING",
        "DELETE FROM playlist_track WHERE playlist_id = {doubled}",
        "DELETE FROM playlist WHERE playlist_id = {doubled}",
        "COMMIT",
    ),
    cheats=[
        _cheat(
            "tracks-lost",
            "DELETE FROM playlist_track WHERE playlist_id = {doubled}",
            "DELETE FROM playlist WHERE playlist_id = {doubled}",
        ),
        _cheat(
            "double-kept",
            "INSERT INTO playlist_track SELECT {kept}, track_id FROM playlist_track"
            " WHERE playlist_id = {doubled} ON CONFLICT DO NOTHING",
        ),
        _cheat(
            "the-other-way",
            "INSERT INTO playlist_track SELECT {doubled}, track_id FROM playlist_track"
            " WHERE playlist_id = {kept} ON CONFLICT DO NOTHING",
            "DELETE FROM playlist_track WHERE playlist_id = {kept}",
            "DELETE FROM playlist WHERE playlist_id = {kept}",
        ),
    ],
)

GENRE = _spec(
    "chinook-genre-revenue",
    title="Tell what a genre earned in a year",
    instruction="""What did the shop earn with tracks of genre "[genre]" in the year
[year], by its invoice lines (unit price times quantity)? Submit the amount as a plain
decimal number.
""",
    generator=_GENRE,
    rights="read",
    writes=[],
    checks=[
        {
            "kind": "answer",
            "name": "amount",
            "options": {"type": "decimal", "equals": {"hidden": "earned"}},
        }
    ],
    gold=[{"query": {"statement": _EARNED}}],
    answer="{hidden.earned}",
    cheats=[
        _cheat("of-all-genres", answer="{hidden.all}"),
        _cheat("with-a-currency", answer="${hidden.earned}"),
        _cheat("two-answers", answer="{hidden.earned} or {hidden.all}"),
        _cheat("not-a-number", answer="NaN"),
    ],
)

SPECS = (TOTALS, MERGE, GENRE)


def taskset(folder: Path, corpus: Path) -> Path:
    """Write the tasks, beside a link to the corpus' own script."""
    (folder / SHARED).symlink_to(corpus / SCRIPT)
    for spec in SPECS:
        written = write_folder(spec, folder)
        _open_placeholders(written / "instruction.md")
    return folder


def _open_placeholders(file: Path) -> None:
    """An imported instruction is literal; one of ours may name values."""
    text = file.read_text()
    file.write_text(text.replace("[", "{").replace("]", "}"))
