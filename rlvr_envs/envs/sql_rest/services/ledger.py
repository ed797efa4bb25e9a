"""A bank's ledger, page by page: another party's books, which nobody here can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query

from rlvr_envs.envs.sql_rest.services.definition import Definition
from rlvr_envs.envs.sql_rest.services.episode import Episode, Here

Entry = Mapping[str, Any]


def _pages(episode: Episode) -> Sequence[Sequence[Entry]]:
    """Return the pages as the instance tells them, overlaps and all."""
    pages: Sequence[Sequence[Entry]] = episode.settings["pages"]
    return pages


def _build() -> FastAPI:
    app = FastAPI(title="Ledger", version="1", docs_url=None, redoc_url=None)

    @app.get("/entries", operation_id="list_entries")
    async def list_entries(
        here: Here, page: Annotated[int, Query(ge=1)] = 1
    ) -> dict[str, Any]:
        """List entries, oldest first; `next` is the path of the page that follows."""
        pages = _pages(here)
        if page > len(pages):
            raise HTTPException(404, f"There are {len(pages)} pages.")
        following = f"/entries?page={page + 1}" if page < len(pages) else None
        return {"page": page, "entries": pages[page - 1], "next": following}

    @app.get("/entries/{entry_id}", operation_id="get_entry")
    async def get_entry(here: Here, entry_id: str) -> Entry:
        """Return one entry."""
        for page in _pages(here):
            for entry in page:
                if entry["id"] == entry_id:
                    return entry
        raise HTTPException(404, f"There is no entry {entry_id}.")

    return app


LEDGER = Definition("ledger", _build)
"""Settings: ``pages``, a list of lists of entries, each with an ``id`` at least."""
