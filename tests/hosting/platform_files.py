"""Reading the files that hosting platforms read."""

import json
import re
import shlex
import tomllib
from typing import Any

from ruamel.yaml import YAML

from tests.support.documents import read

COMPOSE, KUBERNETES = "deploy/compose/compose.yaml", "deploy/kubernetes/imq.yaml"
CHART = "deploy/helm/imq"
WORKFLOW, RELEASE = "deploy/github/imq-verify.yml", ".github/workflows/release.yml"
UNIT, NGINX, CADDY = "deploy/systemd/imq.service", "deploy/nginx/imq.conf", "deploy/compose/Caddyfile"


def heroku() -> Any:
    return json.loads(read("app.json"))


def fly() -> Any:
    return tomllib.loads(read("fly.toml"))


def yaml(name: str) -> list[Any]:
    """The documents of a YAML file."""
    return [each for each in YAML(typ="safe").load_all(read(name)) if each]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its arguments on one line."""
    text = re.sub(r"^ *#.*\n", "", read("Dockerfile"), flags=re.MULTILINE)
    lines = re.sub(r" *\\\n *", " ", text).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines if line)]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage of the Dockerfile; the first is FROM."""
    found: list[list[tuple[str, str]]] = []
    for name, rest in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


def image_environment() -> dict[str, str]:
    """The variables that the image sets."""
    pairs = [shlex.split(rest) for name, rest in stages()[-1] if name == "ENV"]
    return dict(pair.split("=", 1) for line in pairs for pair in line)


def exec_form(instruction: str) -> list[str]:
    """The words of the last stage's instruction in JSON, such as those of CMD."""
    (rest,) = (rest for name, rest in stages()[-1] if name == instruction)
    return [str(word) for word in json.loads(rest[rest.index("[") :])]


def unit() -> dict[str, list[str]]:
    """The directives of the systemd unit; one that is given twice has two values."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", read(UNIT), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def containers() -> list[Any]:
    """The containers of all Deployments, those that run before the others included."""
    pods = [each["spec"]["template"]["spec"] for each in yaml(KUBERNETES) if each["kind"] == "Deployment"]
    return [container for pod in pods for container in (*pod.get("initContainers", ()), *pod["containers"])]
