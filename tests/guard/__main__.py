"""`make audit`: known vulnerabilities of the locked packages. The environment of pip-audit runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.guard.audit import verdict

LOCKS = ("requirements.txt", "requirements-otlp.txt", "requirements-dev.txt", "requirements-guard.txt")

REQUIRED = "IMQ_AUDIT_REQUIRED"
"""Set where the advisories can be reached: then an audit that was impossible fails."""


def main() -> int:
    """Audit each lock file; 1 if a package is vulnerable, or if an audit that is required was impossible."""
    failed = False
    for lock in LOCKS:
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("pip-audit"),
                "--disable-pip",
                "--require-hashes",
                "-f",
                "json",
                "-r",
                lock,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            audit = verdict(json.loads(ran.stdout))
        except (ValueError, KeyError):
            print(f"{lock}: pip-audit failed: {ran.stderr.strip()[-400:]}")
            failed = failed or bool(os.environ.get(REQUIRED))
            continue
        for sentence in audit.vulnerable:
            print(f"{lock}: {sentence}")
        failed = failed or bool(audit.vulnerable)
        if not audit.possible:
            print(
                f"{lock}: NOT AUDITED: no advisory could be read from the package index. Set {REQUIRED}=1 to fail here."
            )
            failed = failed or bool(os.environ.get(REQUIRED))
        else:
            unknown = f", {len(audit.unknown)} unknown" if audit.unknown else ""
            print(f"{lock}: {audit.asked} packages audited{unknown}, {len(audit.vulnerable)} vulnerabilities")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
