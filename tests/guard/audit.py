"""The verdict on what pip-audit reports."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Audit:
    """Packages with known vulnerabilities, packages that could not be asked about, and how many were asked about."""

    vulnerable: tuple[str, ...]
    unknown: tuple[str, ...]
    asked: int

    @property
    def possible(self) -> bool:
        """Whether the advisories could be read at all."""
        return self.asked > 0


def verdict(report: dict[str, Any]) -> Audit:
    """What pip-audit's JSON says. Raises KeyError when it is none."""
    vulnerable, unknown, asked = [], [], 0
    for package in report["dependencies"]:
        if "skip_reason" in package:
            unknown.append(package["name"])
            continue
        asked += 1
        for found in package["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            vulnerable.append(f"{package['name']} {package['version']}: {found['id']} (fixed in {fixed})")
    return Audit(tuple(vulnerable), tuple(unknown), asked)
