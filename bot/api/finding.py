"""Findings of `imq doctor`, which the command prints and the API serves at `/api/v1/doctor`, for operators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.gateway.rules.branch_rules import RulesetBypass


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of an installation, with its effect and its remedy."""

    code: str
    subject: str
    """`IMQ`, `App`, or a repository with its owner."""
    finding: str
    impact: str
    remedy: str
    link: str
    """The page of IMQ's documents with more, from the root of its repository."""

    def as_text(self) -> str:
        lines = (f"{self.subject}: {self.finding}", f"Effect: {self.impact}", f"Remedy: {self.remedy}", self.link)
        return "\n  ".join(lines)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings; `left_out` is how many repositories were not examined, `shadow` which are in shadow mode.

    `trains`: by repository with trains, what starts CI on them, and why. `server`: which Enterprise Server GitHub is,
    and what it lacks; null for github.com.
    """

    findings: tuple[Finding, ...]
    repositories: tuple[str, ...] = ()
    left_out: int = 0
    rulesets: Mapping[str, Sequence[RulesetBypass]] = field(default_factory=dict)
    """By repository, the rulesets that IMQ sees, with how it may bypass each."""
    shadow: tuple[str, ...] = ()
    trains: Mapping[str, str] = field(default_factory=dict)
    tested_again: Mapping[str, str] = field(default_factory=dict)
    """By repository, the minutes that workflows spend on trees that were tested, and what spares them."""
    server: str | None = None

    def as_text(self) -> str:
        lines = [each.as_text() for each in self.findings]
        for name, rulesets in self.rulesets.items():
            listed = ", ".join(f"{each.name} (bypass: {each.bypass or 'unknown'})" for each in rulesets)
            lines.append(f"{name}: rulesets: {listed}")
        lines += [f"{name}: in shadow mode: IMQ writes nothing there" for name in self.shadow]
        lines += [f"{name}: trains: {text}" for name, text in self.trains.items()]
        lines += [f"{name}: tested again: {text}." for name, text in self.tested_again.items()]
        if self.server is not None:
            lines.append(f"GitHub: {self.server}")
        count = len(self.findings)
        examined = f"Repositories examined: {len(self.repositories)}."
        if self.left_out:
            examined += f" Left out: {self.left_out}; name one with --repository."
        verdict = "No findings." if not count else f"Findings: {count}."
        return "\n\n".join([*lines, f"{verdict} {examined}"])
