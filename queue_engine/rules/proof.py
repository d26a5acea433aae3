"""The proof that lets a candidate land: the checks that count, and the rules in force. Pure."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import Any

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


def fingerprint(value: object) -> str:
    """Return the SHA-256 of plain data, which depends on neither process nor order of sets."""
    return sha256(json.dumps(_plain(value), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


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
