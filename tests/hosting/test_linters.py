"""The files for hosting platforms, by the linters of those who know the formats."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.generate import ROOT
from queue_engine.workflows.workflow_file import read_workflow
from tests.hosting.platform_files import COMPOSE, KUBERNETES, RELEASE, UNIT, WORKFLOW, yaml

MOST_EXPOSED = 1.5
"""Of ten, by systemd's own measure; a service without any hardening has 9.6."""
_WHERE = {"systemd-analyze": "install Debian's package systemd"}

Tool = Callable[[str], str]


@pytest.fixture(scope="session")
def tool() -> Tool:
    """Finds a linter on the PATH, or where `make hosting` installs it."""

    def find(name: str) -> str:
        found = shutil.which(name) or shutil.which(name, path=ROOT / ".venv-hosting" / "bin")
        return found or pytest.skip(f"no {name}: {_WHERE.get(name, 'run make hosting')}")

    return find


def run(*command: str) -> tuple[int, str]:
    """Exit code, and all that was printed."""
    pipe, together = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, stdout=pipe, stderr=together, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout


def test_dockerfile_has_no_fault_that_hadolint_knows(tool: Tool, tmp_path: Path) -> None:
    """Neither has a shell command in it, which ShellCheck reads within; a known fault is found."""
    assert run(tool("hadolint"), "Dockerfile") == (0, "")
    (tmp_path / "Dockerfile").write_text((ROOT / "Dockerfile").read_text().replace("debian:13-slim", "debian"))
    assert "DL3006" in run(tool("hadolint"), str(tmp_path / "Dockerfile"))[1]


def test_compose_file_has_the_form_of_its_specification(tool: Tool, tmp_path: Path) -> None:
    """Docker Compose reads it as it is; a misspelt key is found."""
    check = (tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec")
    assert run(*check, COMPOSE)[0] == 0
    (tmp_path / "compose.yaml").write_text((ROOT / COMPOSE).read_text().replace("read_only", "readonly"))
    assert run(*check, str(tmp_path / "compose.yaml"))[0] == 1


def test_workflow_has_the_form_of_github_actions(tool: Tool, tmp_path: Path) -> None:
    """GitHub reads it, and so does IMQ, which would name its job as a check; a misspelt key is found."""
    check = (tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows")
    assert run(*check, WORKFLOW) == (0, "ok -- validation done\n")
    text = (ROOT / WORKFLOW).read_text()
    (tmp_path / "imq.yml").write_text(text.replace("runs-on", "run-on"))
    assert run(*check, str(tmp_path / "imq.yml"))[0] == 1
    workflow = read_workflow(".github/workflows/imq-verify.yml", text)
    assert (workflow.fault, list(workflow.jobs)) == (None, ["verify"])
    assert set(workflow.events) == {"push", "workflow_call"}


@pytest.mark.parametrize("name", [RELEASE, WORKFLOW])
def test_workflow_has_no_weakness_that_zizmor_knows(tool: Tool, tmp_path: Path, name: str) -> None:
    """Neither an action that its owner could exchange, nor a right too many; such a fault is found."""
    check = (tool("zizmor"), "--offline", "--quiet", "--no-progress")
    assert run(*check, name)[0] == 0
    text = (ROOT / name).read_text()
    (tmp_path / "imq.yml").write_text(re.sub(r"actions/checkout@\w{40} # (v\S+)", r"actions/checkout@\1", text))
    assert "unpinned-uses" in run(*check, str(tmp_path / "imq.yml"))[1]


def test_release_is_published_by_jobs_with_few_rights(tool: Tool) -> None:
    """No job has a password of the package index; only those that publish write, and only after the signature."""
    assert run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", RELEASE)[0] == 0
    (workflow,) = yaml(RELEASE)
    read = read_workflow(RELEASE, (ROOT / RELEASE).read_text())
    assert (read.fault, workflow["permissions"], workflow["on"]["push"].keys()) == (None, {}, {"tags"})
    jobs = workflow["jobs"]
    rights = {
        name: {right for right, level in job["permissions"].items() if level == "write"} for name, job in jobs.items()
    }
    assert rights == {
        "build": set(),
        "sign": {"id-token", "attestations"},
        "pypi": {"id-token"},
        "image": {"packages", "id-token", "attestations"},
        "release": {"contents"},
    }
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "sign": "build",
        "pypi": "sign",
        "image": "sign",
        "release": ["pypi", "image"],
    }
    assert {name: job["environment"] for name, job in jobs.items() if "environment" in job} == {
        "sign": "release",
        "pypi": "pypi",
    }
    text = (ROOT / RELEASE).read_text()
    assert re.findall(r"secrets\.(\w+)", text) == ["RELEASE_KEY"]
    targets = set(re.findall(r"make ([a-z-]+)", text))
    assert targets == {"release-check", "release-files", "release-signature"}
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_manifests_have_the_form_of_kubernetes_own_schemas(tool: Tool, tmp_path: Path) -> None:
    """With no key that the API server would drop; a misspelt one is found."""
    check = (tool("kubernetes-validate"), "--strict")
    code, output = run(*check, KUBERNETES)
    assert code == 0, output
    assert output.count(" passed for ") == 7
    (tmp_path / "imq.yaml").write_text((ROOT / KUBERNETES).read_text().replace("readinessProbe", "readyProbe"))
    assert run(*check, str(tmp_path / "imq.yaml"))[0] != 0


def test_unit_is_one_that_systemd_starts_and_that_has_few_rights(tool: Tool, tmp_path: Path) -> None:
    """systemd knows each directive, and its own measure of exposure is low."""
    unit = (ROOT / UNIT).read_text().replace("/opt/imq/bin/imq", sys.executable)
    path = tmp_path / "imq.service"
    path.write_text(unit)
    analyze = tool("systemd-analyze")
    assert run(analyze, "--man=no", "verify", str(path)) == (0, "")
    threshold = f"--threshold={MOST_EXPOSED * 10:.0f}"
    code, output = run(analyze, "--offline=true", "--no-pager", threshold, "security", str(path))
    assert code == 0, output
    path.write_text(unit.replace("ProtectSystem", "ProtectsSystem"))
    assert "ProtectsSystem" in run(analyze, "--man=no", "verify", str(path))[1]
