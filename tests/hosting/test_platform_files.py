"""The files for hosting platforms: each setting, command and path in them is one that IMQ has."""

import re
import shlex
from typing import Any

import pytest

from bot.api.views import USUAL_WAIT
from bot.cli.main import main
from bot.process import lifecycle
from bot.settings.environment import CREDENTIALS, SettingsProblem, load_host_settings, load_settings
from docs.generate import ROOT
from tests.hosting.debian_image import INSTRUCTIONS
from tests.hosting.platform_files import (
    COMPOSE,
    KUBERNETES,
    NGINX,
    UNIT,
    containers,
    exec_form,
    fly,
    heroku,
    image_environment,
    instructions,
    stages,
    unit,
    yaml,
)
from tests.support.documents import read
from tests.test_docs import SETTINGS, code

KEY = "0c1d2e3f4a5b6c7d8e9f00112233"  # pragma: allowlist secret
SERVICES = yaml(COMPOSE)[0]["services"]
(RENDER,) = yaml("render.yaml")[0]["services"]
DEPLOYMENTS = [each for each in yaml(KUBERNETES) if each["kind"] == "Deployment"]
_CALL = re.compile(r"(?:^|(?<!--namespace)[ /])(?:imq|python -m bot) ([a-z]+)\b")
"""A command of IMQ; `docker exec imq` and `docker compose exec imq` name the container before it."""
DRAIN = lifecycle._DRAIN_SECONDS + 5
"""How long a process may take to end, in seconds."""
FOREIGN = {"IMQ_HOST", "IMQ_ADDRESS", "IMQ_UPSTREAM"}
"""Variables of Compose and Caddy, which no process of IMQ sees."""


def test_settings_given_by_a_platform_exist() -> None:
    """A platform sets no variable that IMQ refuses as misspelt, or ignores."""
    environments = [heroku()["env"], image_environment(), SERVICES["imq"]["environment"]]
    given = {name for each in environments for name in each if name not in {"PATH", "PYTHONDONTWRITEBYTECODE"}}
    given |= {variable["key"] for variable in RENDER["envVars"]}
    assert given <= SETTINGS.keys()
    names = ("render.yaml", "fly.toml", KUBERNETES, UNIT, COMPOSE, "deploy/compose/Caddyfile")
    mentioned = {found for name in names for found in re.findall(r"\bIMQ_[A-Z_]+", read(name))}
    assert mentioned - FOREIGN <= SETTINGS.keys()


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "hosting").glob("*.md")), ids=lambda page: page.stem)
def test_page_of_a_platform_names_commands_and_settings_that_exist(page: Any) -> None:
    """What a person copies from the page is accepted."""
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"\bIMQ_[A-Z_]+", text)) - FOREIGN <= SETTINGS.keys()
    spans = code(text)
    called = {found for span in spans for found in re.findall(_CALL, span)}
    assert called - {"imq"} <= main.commands.keys()
    for span in spans:
        for option in re.findall(r" (--[a-z-]+)", span.partition("imq setup")[2]):
            assert option in {name for each in main.commands["setup"].params for name in each.opts}
        for path in re.findall(r"(?:^|[ ])((?:deploy|bot|docs)/[\w./-]+)", span):
            assert (ROOT / path).exists(), path


def test_commands_of_the_platforms_exist() -> None:
    """Every process starts a command of IMQ."""
    started = [args for container in containers() for args in container["args"]]
    started += [exec_form("CMD")[0], RENDER["startCommand"].split()[-1], unit()["ExecStart"][0].split()[-1]]
    assert set(started) == {"web", "worker", "run", "migrate"} <= main.commands.keys()


def test_health_checks_ask_for_paths_that_answer_before_the_app_is_registered() -> None:
    """A platform that waits for `/readyz` would never show the page /setup, on which the App is registered."""
    asked = {RENDER["healthCheckPath"], fly()["http_service"]["checks"][0]["path"]}
    assert asked == {"/healthz"}
    assert "/healthz" in exec_form("HEALTHCHECK")[-1]


def test_kubernetes_restarts_what_hangs_and_withholds_traffic_from_what_is_not_ready() -> None:
    """There the credentials are in the Secret, so readiness means that the process can work."""
    (web,) = (container for container in containers() if container["name"] == "web")
    probes = {name: web[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {"livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert str(web["ports"][0]["containerPort"]) == image_environment()["PORT"]


def test_processes_have_the_time_to_finish_running_work() -> None:
    """A stop that comes too early leaves work to another start; no promise needs it, but people wait."""
    given = [pod["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] for pod in DEPLOYMENTS]
    given += [fly()["kill_timeout"], int(unit()["TimeoutStopSec"][0]), int(SERVICES["imq"]["stop_grace_period"][:-1])]
    assert min(given) > DRAIN
    assert fly()["kill_signal"] == dict(instructions())["STOPSIGNAL"] == "SIGTERM"


def test_image_runs_as_a_user_without_rights_and_writes_to_its_volume_alone() -> None:
    """A person who breaks into the process finds no shell, no package manager, and nothing to change."""
    last = dict(stages()[-1])
    assert int(last["USER"].split(":")[0]) > 0
    settings = load_host_settings(image_environment())
    assert settings.address == "0.0.0.0"
    assert settings.database_url.get_secret_value() == f"sqlite:///{last['VOLUME']}/imq.db"
    assert last["FROM"].startswith("gcr.io/distroless/python3-debian13:")
    assert last["VOLUME"] == last["WORKDIR"] == fly()["mounts"]["destination"]
    assert exec_form("ENTRYPOINT") + exec_form("CMD") == ["imq", "run"]


def test_image_installs_nothing_without_a_hash() -> None:
    """Neither a library nor a tool of the build comes unchecked from the package index."""
    runs = [part.strip() for name, rest in stages()[0] if name == "RUN" for part in rest.split("&&")]
    libraries, build, own = (part for part in runs if part.startswith("pip "))
    assert "--require-hashes" in libraries
    assert "--only-binary :all:" in libraries
    assert {"--no-deps", "--no-build-isolation"} <= set(build.split()), (
        "the tools are Debian's packages, which are signed"
    )
    assert "--no-deps" in own
    assert own.endswith(" /wheels/*.whl")


def test_image_is_built_by_instructions_that_its_test_carries_out() -> None:
    """`make packages` carries them out without Docker; one that it does not know is found before."""
    first, last = stages()
    assert {name for name, _ in first} <= INSTRUCTIONS
    assert not {name for name, _ in last} & {"ADD", "ARG", "ONBUILD", "RUN", "SHELL"}


def test_image_copies_what_it_needs_and_dockerignore_lets_nothing_else_in() -> None:
    """Neither the secrets in `.env` nor the history of git get into the build."""
    copied = {
        source for name, rest in stages()[0] if name == "COPY" for source in shlex.split(rest)[:-1] if source != "--"
    }
    ignore = [line for line in read(".dockerignore").splitlines() if not line.startswith("#")]
    assert ignore[0] == "*"
    assert {line[1:] for line in ignore if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_kubernetes_gives_each_process_the_secrets_that_it_needs() -> None:
    """An attacker in a worker can forge neither webhooks nor sessions; a migration has the database alone."""
    given = {
        container["name"]: [each["secretRef"]["name"] for each in container["envFrom"]] for container in containers()
    }
    assert given == {
        "migrate": ["imq-database"],
        "web": ["imq-database", "imq-app", "imq-web"],
        "worker": ["imq-database", "imq-app"],
    }
    app = {"IMQ_GITHUB_APP_ID", "IMQ_GITHUB_PRIVATE_KEY"}
    needed = set(CREDENTIALS) - app
    with pytest.raises(SettingsProblem) as refused:
        load_settings({}, web=False)
    assert all(name in str(refused.value) for name in app)
    assert not any(name in str(refused.value) for name in needed)


def test_kubernetes_lets_pods_reach_no_private_network_but_a_database() -> None:
    """A process that was taken over finds neither the cloud's metadata nor the services beside it."""
    (policy,) = (each for each in yaml(KUBERNETES) if each["metadata"]["name"] == "imq" and "egress" in each["spec"])
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    blocks = [to["ipBlock"] for rule in policy["spec"]["egress"] for to in rule.get("to", ()) if "ipBlock" in to]
    assert {each["cidr"] for each in blocks} == {"0.0.0.0/0", "::/0"}
    assert "169.254.0.0/16" in blocks[0]["except"]
    open_ports = {port["port"] for rule in policy["spec"]["egress"] if "to" not in rule for port in rule["ports"]}
    assert open_ports == {5432}
    within = [rule["ports"] for rule in policy["spec"]["egress"] if {"namespaceSelector": {}} in rule.get("to", ())]
    assert within == [[{"protocol": "TCP", "port": 4318}]], "a collector of traces"


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_service_of_compose_has_no_rights(service: str) -> None:
    """PostgreSQL and Caddy, too: one that a stranger takes over changes neither files nor the machine."""
    given = SERVICES[service]
    assert given["read_only"] is True
    assert given["cap_drop"] == ["ALL"]
    assert set(given.get("cap_add", ())) <= {"NET_BIND_SERVICE"}
    assert given["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= given.keys()


def test_clients_are_told_apart_behind_the_proxy_of_each_platform() -> None:
    """Otherwise one stranger uses up the limits of all."""
    (web,) = (container for container in containers() if container["name"] == "web")
    given = [each["value"] for each in web["env"] if each["name"] == "IMQ_TRUSTED_PROXIES"]
    given += [fly()["env"]["IMQ_TRUSTED_PROXIES"], heroku()["env"]["IMQ_TRUSTED_PROXIES"]["value"]]
    given += [SERVICES["imq"]["environment"]["IMQ_TRUSTED_PROXIES"]]
    given += [each["value"] for each in RENDER["envVars"] if each["key"] == "IMQ_TRUSTED_PROXIES"]
    assert given == ["private", "fly", "private", "private", "render"]


@pytest.mark.parametrize("container", containers(), ids=lambda container: container["name"])
def test_container_of_kubernetes_has_no_rights(container: dict[str, Any]) -> None:
    """The pod passes the restricted policy of Kubernetes' Pod Security Standards, with a root that is read-only."""
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    for pod in (each["spec"]["template"]["spec"] for each in DEPLOYMENTS):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_kustomization_names_the_manifests_and_their_image() -> None:
    """The name of an operator's image is written once."""
    (kustomization,) = yaml("deploy/kubernetes/kustomization.yaml")
    assert kustomization["resources"] == ["imq.yaml"]
    assert {container["image"] for container in containers()} == {each["name"] for each in kustomization["images"]}


def test_kubernetes_page_adds_to_the_file_of_the_registration_what_it_does_not_have() -> None:
    """`kubectl` refuses a file that has a name twice, and the pods need the database and the credentials."""
    added = re.findall(r"^ *echo '(\w+)=", read("docs/hosting/kubernetes.md"), re.MULTILINE)
    assert added == ["DATABASE_URL"]
    written = {*CREDENTIALS, "IMQ_PUBLIC_URL", "IMQ_RELAY_URL", "IMQ_GITHUB_API_URL"}
    assert not set(added) & written


def test_heroku_starts_what_the_procfile_has() -> None:
    """The button's dynos are lines of the Procfile, and their add-on is the database that IMQ asks for."""
    lines = dict(line.split(": ", 1) for line in read("Procfile").splitlines())
    assert set(heroku()["formation"]) == set(lines) - {"release"}
    assert [each["plan"].partition(":")[0] for each in heroku()["addons"]] == ["heroku-postgresql"]
    assert heroku()["env"]["IMQ_SECRET_KEY"]["generator"] == "secret"


def test_render_connects_the_database_that_it_creates() -> None:
    """The service gets the URL of the blueprint's database, and draws a key."""
    (blueprint,) = yaml("render.yaml")
    variables = {each["key"]: each for each in RENDER["envVars"]}
    assert variables["DATABASE_URL"]["fromDatabase"]["name"] == blueprint["databases"][0]["name"]
    assert variables["IMQ_SECRET_KEY"] == {"key": "IMQ_SECRET_KEY", "generateValue": True}


def test_compose_gives_the_addresses_that_imq_accepts() -> None:
    """With the variables of the page the settings load, and the database is the service beside it."""
    values = {"POSTGRES_PASSWORD": "s3cret", "IMQ_HOST": "imq.example.com", "IMQ_SECRET_KEY": KEY}
    given = {
        name: re.sub(r"\$\{(\w+)[^}]*\}", lambda found: values[found[1]], value)
        for name, value in SERVICES["imq"]["environment"].items()
    }
    settings = load_host_settings(image_environment() | given)
    assert settings.public_url == "https://imq.example.com"
    assert "@postgres/" in settings.database_url.get_secret_value()
    assert SERVICES["imq"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_nginx_waits_longer_for_an_answer_than_a_program_may_wait_for_a_change() -> None:
    """Otherwise a program that waits as long as it may gets an error of nginx instead of the answer."""
    found = re.search(r"proxy_read_timeout (\d+)s;", read(NGINX))
    assert found is not None
    assert int(found[1]) >= USUAL_WAIT + 15
