"""Which verifiers exist, by the name that a task calls them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import jsonschema

from rlvr_envs.records import JsonObject, VerifierSpec
from rlvr_envs.verifiers.answer import Answer
from rlvr_envs.verifiers.ast_diff import AstDiff
from rlvr_envs.verifiers.command import Command
from rlvr_envs.verifiers.files import FileContent
from rlvr_envs.verifiers.foreign_keys import ForeignKeys
from rlvr_envs.verifiers.pytest import Pytest
from rlvr_envs.verifiers.refund import Refund
from rlvr_envs.verifiers.rest_audit import RestAudit
from rlvr_envs.verifiers.sql_invariant import SqlInvariant
from rlvr_envs.verifiers.sql_rows import SqlRows
from rlvr_envs.verifiers.system_files import SystemFiles
from rlvr_envs.verifiers.ticket import TicketRubric
from rlvr_envs.verifiers.told import Told
from rlvr_envs.verifiers.verifier import Verifier
from rlvr_envs.verifiers.webhook import Webhook

KINDS: Mapping[str, type[Verifier]] = MappingProxyType(
    {
        "file_content": FileContent,
        "pytest": Pytest,
        "command": Command,
        "ast_diff": AstDiff,
        "system_files": SystemFiles,
        "sql_invariant": SqlInvariant,
        "sql_rows": SqlRows,
        "foreign_keys": ForeignKeys,
        "webhook": Webhook,
        "rest_audit": RestAudit,
        "answer": Answer,
        "told": Told,
        "refund": Refund,
        "ticket": TicketRubric,
    }
)


def validate_options(kind: str, options: JsonObject) -> None:
    """Check a verifier's options, as a task declares them.

    Raises:
        ValueError: If the kind is unknown or an option is wrong; says which.
    """
    if kind not in KINDS:
        raise ValueError(f"no verifier is named {kind!r}; known: {', '.join(KINDS)}")
    checker = jsonschema.Draft202012Validator(
        dict(KINDS[kind].schema), format_checker=jsonschema.FormatChecker()
    )
    error = jsonschema.exceptions.best_match(checker.iter_errors(dict(options)))
    if error is not None:
        where = "".join(f"[{part!r}]" for part in error.absolute_path)
        raise ValueError(f"options{where} of {kind}: {error.message}")
    if flaw := KINDS[kind].flaw(options):
        raise ValueError(f"options of {kind}: {flaw}")


def make(spec: VerifierSpec, kinds: Mapping[str, type[Verifier]] = KINDS) -> Verifier:
    """Return the verifier of a check.

    Raises:
        KeyError: If there is no such kind.
    """
    return kinds[spec.kind](spec)
