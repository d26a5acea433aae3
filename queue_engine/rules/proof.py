"""The proof that lets a candidate land: the checks that count, and the rules in force. Pure."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha1, sha256
from typing import Any

from cachetools import LRUCache

from queue_engine.config.model import Policy
from queue_engine.domain.facts import BranchRules, CheckReport, CheckState, MergeMethod, RequiredCheck
from queue_engine.domain.landing_record import CheckProof, LandingProof, ProofKind
from queue_engine.rules.check_progress import safe_link
from queue_engine.rules.checks import counted


def proof_of(
    commit: str,
    required: Collection[RequiredCheck],
    reports: Iterable[CheckReport],
    rules: BranchRules | None,
    policy: Policy,
    method: MergeMethod | None = None,
) -> LandingProof:
    """Return what lets a commit land whose checks pass by these reports; without required ones, every report counts."""
    counting = counted(required, reports, policy.checks.ignored)
    checks = check_proofs(commit, counting)
    return LandingProof(checks, None if rules is None else fingerprint(rules), fingerprint(policy), method)


def check_proofs(commit: str, reports: Iterable[CheckReport], kind: ProofKind | None = None) -> tuple[CheckProof, ...]:
    """Return the reports that passed, as records keep them."""
    return tuple(
        CheckProof(each.name, each.conclusion, commit, each.app_id, safe_link(each.url), kind)
        for each in reports
        if each.state is CheckState.PASSED
    )


def mark_text(base_branch: str, checks: Iterable[RequiredCheck]) -> str:
    """Return what a mark says: on candidates for this branch these checks passed. The same words always."""
    named = sorted(each.name if each.app_id is None else f"{each.name} ({each.app_id})" for each in checks)
    return "".join(f"{line}\n" for line in ("imq-tested v1", f"branch {base_branch}", *(f"check {it}" for it in named)))


def mark_of(base_branch: str, checks: Iterable[RequiredCheck]) -> str:
    """Return the mark, which the ref of a tested tree has in its name: what `git hash-object` makes of its text.

    So a tree that was tested for another branch, or by other checks, has another ref.
    """
    text = mark_text(base_branch, checks).encode()
    return sha1(b"blob %d\0%b" % (len(text), text), usedforsecurity=False).hexdigest()


def is_marked(proof: LandingProof | None, checks: Collection[RequiredCheck]) -> bool:
    """Whether each of these checks succeeded on the tested tree itself: one that was skipped tested nothing."""
    if proof is None or not checks:
        return False
    passed = {
        (each.name, app)
        for each in proof.checks
        if each.conclusion == "success" and each.kind in (None, ProofKind.SAME_TREE)
        for app in (each.app, None)
    }
    return all((each.name, each.app_id) in passed for each in checks)


_FINGERPRINTS = LRUCache[int, tuple[object, str]](256)
"""Those of the configurations and rules that are cached and so the same objects at each landing, by `id`."""


def fingerprint(value: object) -> str:
    """Return the SHA-256 of plain data that nothing changes; it depends on neither process nor order of sets."""
    kept = _FINGERPRINTS.get(id(value))
    if kept is None or kept[0] is not value:
        kept = value, sha256(json.dumps(_plain(value), sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        _FINGERPRINTS[id(value)] = kept
    return kept[1]


def _plain(value: object) -> Any:
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case Mapping():
            return {str(_plain(name)): _plain(each) for name, each in value.items()}
        case set() | frozenset():
            return sorted((_plain(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
        case list() | tuple():
            return [_plain(each) for each in value]
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return str(value)
