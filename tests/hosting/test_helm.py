"""The Helm chart, rendered by Helm itself: what it applies is what deploy/kubernetes applies, and nothing more open."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bot import __version__
from bot.settings.environment import Settings
from docs.generate import ROOT
from tests.hosting.platform_files import CHART, KUBERNETES, yaml
from tests.hosting.test_linters import run
from tests.support.documents import read, rows
from tests.test_docs import SETTINGS

IMAGE = "registry.example.com/imq"
GIVEN = {"image": {"repository": IMAGE}}
_RENDER = """
import json, sys
import helm_python as helm

asked = json.load(sys.stdin)
try:
    with helm.Chart.load(asked["chart"]) as chart:
        chart.validate_schema(asked["values"])
        files = chart.render(asked["values"], name=asked["name"], namespace="merging")
    lint = helm.lint(asked["chart"], asked["values"], strict=True)["messages"]
    print(json.dumps({"files": files, "lint": [each for each in lint if each["severity"] > 1]}))
except (helm.HelmValuesError, helm.HelmRenderError) as refused:
    print(json.dumps({"refused": str(refused)}))
"""
"""Helm's SDK is in the environment of the linters, which has other libraries than IMQ."""


def helm(values: dict[str, Any], name: str = "imq", chart: Path = ROOT / CHART) -> Any:
    """What Helm says of the chart, a folder or an archive, with these values."""
    python = ROOT / ".venv-hosting" / "bin" / "python"
    if not python.exists():
        pytest.skip("no Helm: run make hosting")
    asked = json.dumps({"chart": str(chart), "values": values, "name": name})
    done = subprocess.run([python, "-c", _RENDER], input=asked, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def rendered(values: dict[str, Any] | None = None, name: str = "imq") -> dict[tuple[str, str], Any]:
    """The objects that Helm applies, by kind and name."""
    texts = [text for file, text in helm(GIVEN | (values or {}), name)["files"].items() if file.endswith(".yaml")]
    found = [each for text in texts for each in YAML(typ="safe").load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod(found: Any) -> Any:
    return found["spec"]["template"]["spec"]


def test_chart_is_that_of_the_manifests() -> None:
    """Pods have the same rights, secrets, probes and limits, by the manifests and by the chart."""
    chart, manifests = rendered(), {(each["kind"], each["metadata"]["name"]): each for each in yaml(KUBERNETES)}
    assert chart.keys() - manifests.keys() == {("Job", "imq-migration")}
    assert manifests.keys() <= chart.keys()
    for process in ("web", "worker"):
        ours, plain = chart["Deployment", f"imq-{process}"], manifests["Deployment", f"imq-{process}"]
        assert ours["spec"]["replicas"] == plain["spec"]["replicas"]
        (migrate,) = pod(plain).pop("initContainers")
        (container,) = pod(ours)["containers"]
        assert container.pop("image") == f"{IMAGE}:{__version__}"
        assert container.pop("imagePullPolicy") == "IfNotPresent"
        del pod(plain)["containers"][0]["image"]
        assert pod(ours) == pod(plain)
        job = pod(chart["Job", "imq-migration"])
        (container,) = job["containers"]
        assert {**container, "image": "imq"} == {**migrate, "imagePullPolicy": "IfNotPresent"}
        rights = ("automountServiceAccountToken", "enableServiceLinks", "securityContext")
        assert {each: job[each] for each in rights} == {each: pod(plain)[each] for each in rights}
        limits = chart["PodDisruptionBudget", f"imq-{process}"]["spec"]
        assert limits["maxUnavailable"] == manifests["PodDisruptionBudget", f"imq-{process}"]["spec"]["maxUnavailable"]
    ours, plain = chart["NetworkPolicy", "imq"]["spec"], manifests["NetworkPolicy", "imq"]["spec"]
    assert (ours["egress"], ours["policyTypes"]) == (plain["egress"], plain["policyTypes"])
    web, plain = chart["NetworkPolicy", "imq-web"]["spec"], manifests["NetworkPolicy", "imq-web"]["spec"]
    assert (web["ingress"], web["policyTypes"]) == (plain["ingress"], plain["policyTypes"])
    assert chart["Service", "imq"]["spec"]["ports"] == manifests["Service", "imq"]["spec"]["ports"]


def test_each_object_finds_the_pods_of_its_release() -> None:
    """Two releases in one namespace never take the other's pods."""
    found = rendered(name="queue")
    assert {name for _, name in found} == {"queue-imq", "queue-imq-web", "queue-imq-worker", "queue-imq-migration"}
    everything = {"app.kubernetes.io/name": "imq", "app.kubernetes.io/instance": "queue"}
    for (kind, name), each in found.items():
        wanted = (
            everything | {"app.kubernetes.io/component": name.rpartition("-")[2]} if name != "queue-imq" else everything
        )
        spec = each["spec"]
        match kind:
            case "Deployment":
                assert spec["selector"]["matchLabels"] == wanted
                assert wanted.items() <= spec["template"]["metadata"]["labels"].items()
            case "PodDisruptionBudget":
                assert spec["selector"]["matchLabels"] == wanted
            case "NetworkPolicy":
                assert spec["podSelector"]["matchLabels"] == wanted
            case "Service":
                assert spec["selector"] == everything | {"app.kubernetes.io/component": "web"}
            case "Job":
                assert everything.items() <= spec["template"]["metadata"]["labels"].items()
            case _:
                pytest.fail(f"a new kind: {kind}")


def test_values_of_an_operator_reach_the_objects() -> None:
    """Existing Secrets, a digest, settings, further egress and an Ingress: each is written once."""
    digest = f"sha256:{'0' * 64}"
    internal = {"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}], "ports": [{"protocol": "TCP", "port": 443}]}
    found = rendered(
        {
            "image": {"repository": IMAGE, "digest": digest, "pullSecrets": ["registry"]},
            "secrets": {"database": "ours-database", "app": "ours-app", "web": "ours-web"},
            "settings": {"IMQ_MAX_QUEUE_DEPTH": "30", "SSL_CERT_FILE": "/ca/ca.pem", "IMQ_SINKS": "/ca/sinks.yml"},
            "worker": {"replicas": 4},
            "pods": {
                "nodeSelector": {"pool": "tools"},
                "annotations": {"team": "platform"},
                "labels": {"sidecar.istio.io/inject": "false", "app.kubernetes.io/name": "ours"},
                "user": 0,
                "volumes": [{"name": "ca", "configMap": {"name": "our-ca"}}],
                "volumeMounts": [{"name": "ca", "mountPath": "/ca"}],
            },
            "network": {"egress": [internal]},
            "ingress": {"enabled": True, "host": "imq.example.com", "tlsSecret": "certificate"},
        }
    )
    given: dict[str, list[str]] = {}
    for each in found.values():
        if each["kind"] in {"Deployment", "Job"}:
            (container,) = pod(each)["containers"]
            given[container["name"]] = [one["secretRef"]["name"] for one in container["envFrom"]]
            assert container["image"] == f"{IMAGE}@{digest}"
            assert pod(each)["imagePullSecrets"] == [{"name": "registry"}]
            assert pod(each)["nodeSelector"] == {"pool": "tools"}
            assert each["spec"]["template"]["metadata"]["annotations"] == {"team": "platform"}
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert (labels["sidecar.istio.io/inject"], labels["app.kubernetes.io/name"]) == ("false", "imq")
            assert not pod(each)["securityContext"].keys() & {"runAsUser", "runAsGroup"}
            assert pod(each)["volumes"] == [{"name": "ca", "configMap": {"name": "our-ca"}}]
            assert container["volumeMounts"] == [{"name": "ca", "mountPath": "/ca"}]
            setting = {"name": "IMQ_MAX_QUEUE_DEPTH", "value": "30"}
            assert (setting in container.get("env", [])) == (container["name"] != "migrate")
    assert given == {
        "migrate": ["ours-database"],
        "web": ["ours-database", "ours-app", "ours-web"],
        "worker": ["ours-database", "ours-app"],
    }
    assert found["Deployment", "imq-worker"]["spec"]["replicas"] == 4
    assert found["NetworkPolicy", "imq"]["spec"]["egress"][-1] == internal
    spec = found["Ingress", "imq"]["spec"]
    assert spec["tls"] == [{"hosts": ["imq.example.com"], "secretName": "certificate"}]
    paths = {each["path"]: each["pathType"] for each in spec["rules"][0]["http"]["paths"]}
    page = read("docs/operating.md").partition("### What the reverse proxy passes")[2].partition("\n### ")[0]
    documented = {path for cells in rows(page) for path in re.findall(r"`(/[^`]*)`", cells[0])}
    assert {path.rstrip("/") or "/" for path in documented if "setup" not in path} == paths.keys()
    assert paths.pop("/") == "Exact"
    assert set(paths.values()) == {"Prefix"}
    assert not [path for path in paths if path.startswith(("/metrics", "/healthz", "/readyz"))]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "/image/repository"),
        ({**GIVEN, "web": {"replica": 2}}, "replica"),
        ({**GIVEN, "settings": {"DATABASE_URL": "sqlite://"}}, "DATABASE_URL"),
        ({**GIVEN, "secrets": {"database": "A b", "app": "imq-app", "web": "imq-web"}}, "/secrets/database"),
        ({**GIVEN, "ingress": {"enabled": True}}, "/ingress/host"),
        ({**GIVEN, "ingress": {"enabled": True, "host": "https://imq.example.com"}}, "/ingress/host"),
        ({**GIVEN, "settings": {"IMQ_TRUSTED_PROXIES": "private"}}, "set web.trustedProxies"),
    ],
)
def test_wrong_value_is_refused_by_its_name(values: dict[str, Any], named: str) -> None:
    """No misspelt value is ignored, and no Deployment holds the address of the database."""
    assert named in helm(values)["refused"]


def test_secret_among_the_settings_is_refused_and_its_file_is_not() -> None:
    """Everyone who may read a Deployment would see it, and `helm get values` too."""
    fields = Settings.model_fields.values()
    secrets = {str(each.validation_alias) for each in fields if "SecretStr" in str(each.annotation)} - {"DATABASE_URL"}
    assert {"IMQ_SECRET_KEY", "IMQ_GITHUB_PRIVATE_KEY"} <= secrets
    for name in sorted({*secrets, "IMQ_SINKS"}):
        assert f"settings.{name} is a secret" in helm(GIVEN | {"settings": {name: "of ours"}})["refused"]
    for name in ("IMQ_GITHUB_PRIVATE_KEY", "IMQ_SINKS"):
        assert "refused" not in helm(GIVEN | {"settings": {name: "/secrets/file"}})


def test_rendered_objects_have_the_form_of_kubernetes_own_schemas(tmp_path: Path) -> None:
    """Helm finds no fault in the chart, and the API server would drop no key; settings of the chart exist."""
    everything = {**GIVEN, "ingress": {"enabled": True, "host": "imq.example.com", "className": "nginx"}}
    answer = helm(everything)
    assert answer["lint"] == []
    names = []
    for file, text in answer["files"].items():
        if file.endswith(".yaml"):
            names.append(str(tmp_path / Path(file).name))
            Path(names[-1]).write_text(text)
    code, output = run(str(ROOT / ".venv-hosting" / "bin" / "kubernetes-validate"), "--strict", *names)
    assert code == 0, output
    assert output.count(" passed for ") == 9
    texts = "".join(path.read_text() for path in (ROOT / CHART).rglob("*") if path.is_file())
    assert set(re.findall(r"\bIMQ_[A-Z_]+", texts)) - {"IMQ_"} <= SETTINGS.keys()
