"""Read the operator's settings from the environment, or refuse them in one readable message."""

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from bot.settings.private_key import private_key
from bot.settings.setting_values import (
    EVERYWHERE,
    HERE,
    bind_address,
    enough_days,
    public_url,
    relay_url,
    safe_api_url,
    seconds,
    strong_secret,
)
from bot.settings.sink_settings import Sinks
from queue_engine.config.model import CheckRules, Policy
from queue_engine.core.database.database import database_url
from queue_engine.domain.policy import SharedConfig

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = ("127.0.0.0/8", "::1/128")
_PRIVATE = (*_LOOPBACK, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10")
_HEADERS = {"fly": "Fly-Client-IP", "render": "CF-Connecting-IP"}
"""The headers in which the proxies of platforms name their client, in place of `X-Forwarded-For`."""
_NETWORKS = {"none": (), "loopback": _LOOPBACK, "private": _PRIVATE, **dict.fromkeys(_HEADERS, _PRIVATE)}
"""Words for networks. Private ones are those of RFC 1918, 6598 and 4193, and of one link, as platforms' proxies have.
"""

_DEFAULT_PROXIES = "loopback"
"""A proxy on the same machine, where IMQ listens unless a platform or `IMQ_BIND` says otherwise."""


def trusted_proxies(value: str) -> tuple[Network, ...]:
    """Return the networks that words, addresses or networks name. Raises ValueError."""
    found: list[Network] = []
    for name in _listed(value):
        try:
            found += [ipaddress.ip_network(each) for each in _NETWORKS.get(name.casefold(), (name,))]
        except ValueError:
            raise ValueError(
                "must be addresses or networks such as 10.0.0.0/8, separated by commas, or one of the words "
                f"{', '.join(_NETWORKS)}"
            ) from None
    if not _listed(value):
        raise ValueError(f"names no proxy: give networks, or one of the words {', '.join(_NETWORKS)}")
    if any(network.prefixlen == 0 for network in found):
        raise ValueError("trusts every address, so that each client could choose its own: name the proxy's network")
    return tuple(found)


def client_header(value: str) -> str:
    """Return the header in which these proxies name their client."""
    named = map(str.casefold, _listed(value))
    return next((_HEADERS[name] for name in named if name in _HEADERS), "X-Forwarded-For")


def _listed(value: str) -> list[str]:
    return value.replace(",", " ").split()


_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OPERATOR = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?")
_FOR_ROTATION = (
    "set it to the former IMQ_SECRET_KEY, until IMQ has re-encrypted the credentials and all have logged in again"
)


def _client_id(value: str) -> str:
    if not _CLIENT_ID.fullmatch(value.strip()):
        raise ValueError("is no client id; it stands on the App's settings page, and begins with Iv")
    return value.strip()


def _operators(value: str) -> str:
    names = _names(value)
    if not names:
        raise ValueError("names nobody: give GitHub ids or logins, or remove it")
    if not all(_OPERATOR.fullmatch(each) for each in names):
        raise ValueError("must be GitHub ids or logins, separated by commas: an id such as 583231 is safer")
    return value


def _proxies(value: str) -> str:
    trusted_proxies(value)
    return value


def _label(value: str) -> str:
    label = value.strip()
    if not label or not label.isprintable():
        raise ValueError("is blank, or more than one line: give a label's name of at most 50 characters")
    return label


def _app_id(value: str) -> str:
    if not (value.strip().isascii() and value.strip().isdecimal()):
        raise ValueError("must be the App's numeric id (not its client id); it stands on the App's settings page")
    return value.strip()


def _secret(check: Callable[[str], str]) -> AfterValidator:
    return AfterValidator(lambda value: SecretStr(check(value.get_secret_value())))


def _strong(advice: str) -> AfterValidator:
    return _secret(partial(strong_secret, advice=advice))


# The fields of these names would hide the checks.
_PublicUrl = Annotated[str, AfterValidator(public_url)]
_RelayUrl = Annotated[str, AfterValidator(relay_url)]


class PageSettings(BaseModel):
    model_config = ConfigDict(frozen=True, validate_default=True, defer_build=True)

    client_id: Annotated[str, AfterValidator(_client_id)] | None = Field(None, validation_alias="IMQ_GITHUB_CLIENT_ID")
    """The App's client id; IMQ asks GitHub for it if it is not set."""
    client_secret: SecretStr | None = Field(None, validation_alias="IMQ_GITHUB_CLIENT_SECRET")
    """A client secret of the App; people need it to log in."""
    former_secret_key: Annotated[SecretStr, _strong(_FOR_ROTATION)] | None = Field(
        None, validation_alias="IMQ_FORMER_SECRET_KEY"
    )
    """The key before IMQ_SECRET_KEY: it still decrypts stored credentials, and cookies that it signed count."""
    public_pages: bool = Field(False, validation_alias="IMQ_PUBLIC_PAGES")
    """Whether everybody may read the pages of public repositories."""
    operators: Annotated[str, AfterValidator(_operators)] | None = Field(None, validation_alias="IMQ_OPERATORS")
    """GitHub ids or logins of the people who run IMQ: their pages show everything."""

    proxies: Annotated[str, AfterValidator(_proxies)] = Field(_DEFAULT_PROXIES, validation_alias="IMQ_TRUSTED_PROXIES")
    """The reverse proxies whose `X-Forwarded-For` names the client."""

    @property
    def trusted_proxies(self) -> tuple[Network, ...]:
        """Return the networks of the trusted reverse proxies."""
        return trusted_proxies(self.proxies)

    @property
    def client_header(self) -> str:
        """Return the header in which a trusted reverse proxy names its client."""
        return client_header(self.proxies)

    def is_operator(self, person_id: int, login: str) -> bool:
        named = _names(self.operators)
        return str(person_id) in named or (not login.isdecimal() and login.casefold() in named)


def _names(value: str | None) -> frozenset[str]:
    """Read names that commas or spaces separate."""
    return frozenset((value or "").casefold().replace(",", " ").split())


ADVICE: Mapping[str, str] = {
    "IMQ_GITHUB_APP_ID": "set it to the App's numeric id, which stands on the App's settings page",
    "IMQ_GITHUB_PRIVATE_KEY": "set it to the App's private key: the PEM, its base64, or the path of its file",
    "IMQ_GITHUB_WEBHOOK_SECRET": "set it to the secret that was entered as the App's webhook secret",
    "PORT": "give a number from 0 to 65535",
    "IMQ_INTERVAL_SECONDS": "give a number of seconds above 0",
    "IMQ_SWEEP_SECONDS": "give a number of seconds above 0",
    "IMQ_CONCURRENCY": "give a whole number from 1 to 100",
    "IMQ_CHECK_TIMEOUT_SECONDS": "give a number of seconds above 0",
    "IMQ_LEASE_SECONDS": "give a number of seconds above 0",
    "IMQ_MAX_QUEUE_DEPTH": "give a whole number, 0 for no limit",
    "IMQ_TIMELINE_DAYS": "give a whole number of days, 0 to keep the timeline for good",
    "IMQ_LANDINGS_DAYS": "give a whole number of days, 0 to keep the records of landings for good",
    "IMQ_TRIGGER_LABEL": "give a label's name of at most 50 characters",
    "IMQ_ORGANIZATION_CONFIG": "give off, tighten or trust",
    "IMQ_SINKS": "give a list of sinks as YAML, or the path of its file (docs/notifications.md)",
    "IMQ_LOG_LEVEL": "give debug, info, warning or error",
    "IMQ_METRICS": "give open or token",
    "IMQ_IDEMPOTENCY_KEY": "give required or optional",
    "IMQ_LOG_FORMAT": "give json or console",
    "IMQ_ALLOW_EPHEMERAL_SQLITE": "give 1 or 0",
    "IMQ_PUBLIC_PAGES": "give 1 or 0",
    "IMQ_CORRECT_WEBHOOK": "give 1 or 0",
}


_EPHEMERAL_PLATFORMS = AliasChoices("DYNO", "K_SERVICE", "VCAP_APPLICATION", "RENDER")
"""Set by Heroku, Cloud Run, Cloud Foundry and Render, whose disks are lost at every restart."""

_EPHEMERAL = (
    "is SQLite (the default), but this platform's disk is lost at every restart: add a PostgreSQL database and set "
    "DATABASE_URL to its URL, or set IMQ_ALLOW_EPHEMERAL_SQLITE=1 if losing the queues is acceptable"
)


CREDENTIALS = ("IMQ_GITHUB_APP_ID", "IMQ_GITHUB_PRIVATE_KEY", "IMQ_GITHUB_WEBHOOK_SECRET")
"""The settings that `imq setup` finds out."""

WAYS_OUT = "run `imq setup`; or set IMQ_PUBLIC_URL and IMQ_SECRET_KEY, start IMQ again, and open its page /setup"
"""How to get the credentials of an App."""

_ON_BOTH_SIDES = "enter it here and on the App's settings page"


class SettingsProblem(Exception):
    """The settings are invalid. The message names every problem and its solution."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        lines = ["IMQ cannot start with these settings:", *(f"  - {line}" for line in problems)]
        if all(any(line.startswith(f"{name} is missing") for line in problems) for name in CREDENTIALS):
            lines.append(f"To register a GitHub App: {WAYS_OUT}.")
        super().__init__("\n".join(lines))


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Seconds = Annotated[timedelta, BeforeValidator(seconds), Field(gt=timedelta(0))]


class QueueSettings(BaseModel):
    """The operator's settings of queues. Construct with `load_queue_settings`."""

    model_config = ConfigDict(frozen=True, validate_default=True, hide_input_in_errors=True, defer_build=True)

    check_timeout: Seconds = Field(timedelta(seconds=7200), validation_alias="IMQ_CHECK_TIMEOUT_SECONDS")
    """How long required checks may take."""
    max_queue_depth: int = Field(20, validation_alias="IMQ_MAX_QUEUE_DEPTH", ge=0)
    trigger_label: Annotated[str, AfterValidator(_label)] = Field(
        "merge-queue", validation_alias="IMQ_TRIGGER_LABEL", max_length=50
    )
    organization_config: Annotated[SharedConfig, BeforeValidator(_lower)] = Field(
        SharedConfig.TIGHTEN, validation_alias="IMQ_ORGANIZATION_CONFIG"
    )
    """The permitted effect of an owner's shared configuration."""

    def policy(self) -> Policy:
        """Return the engine's policy for repositories without configuration."""
        return Policy(
            trigger_labels=(self.trigger_label,),
            depth=self.max_queue_depth,
            checks=CheckRules(fallback_timeout=self.check_timeout),
        )


class HostSettings(QueueSettings, PageSettings):
    """All settings but the App's credentials, which may be in the database. Construct with `load_host_settings`."""

    github_api_url: Annotated[str, AfterValidator(safe_api_url)] = Field(
        "https://api.github.com", validation_alias="IMQ_GITHUB_API_URL"
    )
    public_url: _PublicUrl | None = Field(None, validation_alias="IMQ_PUBLIC_URL")
    """Where people and GitHub reach the web process; without a trailing slash."""
    relay_url: _RelayUrl | None = Field(None, validation_alias="IMQ_RELAY_URL")
    """The channel of a webhook relay, for a web process that GitHub does not reach."""
    corrects_webhook: bool = Field(True, validation_alias="IMQ_CORRECT_WEBHOOK")
    """Whether the start sets the App's webhook address and secret where they differ."""
    secret_key: Annotated[SecretStr, _strong("set it for every process of IMQ")] | None = Field(
        None, validation_alias="IMQ_SECRET_KEY"
    )
    """Encrypts what is stored, and signs cookies."""
    platform: str | None = Field(None, validation_alias=_EPHEMERAL_PLATFORMS, repr=False)
    """Set on a platform that loses its disk at every restart."""
    allow_ephemeral_sqlite: bool = Field(False, validation_alias="IMQ_ALLOW_EPHEMERAL_SQLITE")
    database_url: SecretStr = Field(SecretStr("sqlite:///imq.db"), validation_alias="DATABASE_URL")
    """As it was given; it may contain a password."""
    port: int = Field(8080, validation_alias="PORT", ge=0, le=65535)
    bind: Annotated[str, AfterValidator(bind_address)] | None = Field(None, validation_alias="IMQ_BIND")
    """The address that the web process listens on; None leaves it to `address`."""
    interval: Seconds = Field(timedelta(seconds=30), validation_alias="IMQ_INTERVAL_SECONDS")
    sweep: Seconds = Field(timedelta(seconds=600), validation_alias="IMQ_SWEEP_SECONDS")
    """Between two reconciliation sweeps."""
    concurrency: int = Field(8, validation_alias="IMQ_CONCURRENCY", ge=1, le=100)
    """How many queues one process advances at once."""
    lease: Seconds = Field(timedelta(seconds=30), validation_alias="IMQ_LEASE_SECONDS")
    """How long a process that died can keep work from the others."""
    timeline_days: Annotated[int, AfterValidator(enough_days)] = Field(365, validation_alias="IMQ_TIMELINE_DAYS", ge=0)
    """The age at which an event of the timeline is deleted; 0 keeps the timeline for good."""
    landings_days: Annotated[int, AfterValidator(enough_days)] = Field(730, validation_alias="IMQ_LANDINGS_DAYS", ge=0)
    """The age at which the record of a landing is deleted; 0 keeps all for good."""
    sinks: Sinks = Field((), validation_alias="IMQ_SINKS")
    metrics: Annotated[Literal["open", "token"] | None, BeforeValidator(_lower)] = Field(
        None, validation_alias="IMQ_METRICS"
    )
    """Who reads the metrics: everybody who reaches the port, or callers with an operator's token. None: those with a
    token, where IMQ has a public address."""
    idempotency_key: Literal["required", "optional"] = Field("required", validation_alias="IMQ_IDEMPOTENCY_KEY")
    """Whether writing calls of the API need the header `Idempotency-Key`."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        "info", validation_alias="IMQ_LOG_LEVEL"
    )
    log_format: Annotated[Literal["json", "console"] | None, BeforeValidator(_lower)] = Field(
        None, validation_alias="IMQ_LOG_FORMAT"
    )
    """None means console on a terminal, else json."""

    @property
    def metrics_need_token(self) -> bool:
        """Whether only callers with an operator's token read the metrics."""
        return self.metrics == "token" or (self.metrics is None and self.public_url is not None)

    @property
    def timeline_kept(self) -> timedelta | None:
        """Return the age at which an event of the timeline is deleted; None keeps the timeline for good."""
        return timedelta(days=self.timeline_days) if self.timeline_days else None

    @property
    def landings_kept(self) -> timedelta | None:
        """Return the age at which the record of a landing is deleted; None keeps all for good."""
        return timedelta(days=self.landings_days) if self.landings_days else None

    def missing_for_login(self) -> list[str]:
        """Return the names of the settings that a login at the pages needs and that are missing."""
        needed = (self.public_url, self.secret_key, self.client_secret)
        names = ("IMQ_PUBLIC_URL", "IMQ_SECRET_KEY", "IMQ_GITHUB_CLIENT_SECRET")
        return [name for name, value in zip(names, needed, strict=True) if value is None]

    def on_port(self, port: int) -> Self:
        """Return the settings with the port that the system chose, also in a public URL whose port is 0."""
        url = self.public_url
        if url is not None and url.endswith(":0"):
            url = f"{url.removesuffix(':0')}:{port}"
        return self.model_copy(update={"port": port, "public_url": url})

    @property
    def webhook_address(self) -> str | None:
        """Return where GitHub sends webhooks; None if it is not known."""
        return self.relay_url or (None if self.public_url is None else f"{self.public_url}/webhook")

    @property
    def address(self) -> str:
        """Return the address to listen on: every address if a platform chose the port, whose router is elsewhere."""
        return self.bind or (EVERYWHERE if "port" in self.model_fields_set else HERE)

    @field_validator("database_url")
    @classmethod
    def _database_can_last(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        url = value.get_secret_value().strip()
        try:
            parsed = database_url(url)
        except ValueError as error:
            raise ValueError(f"cannot be used: {error}") from None
        ephemeral = info.data.get("platform") and not info.data.get("allow_ephemeral_sqlite")
        if ephemeral and parsed.get_backend_name() == "sqlite":
            raise ValueError(_EPHEMERAL)
        return SecretStr(url)


class Settings(HostSettings):
    """All settings of the operator. Construct with `load_settings`. Secrets never show in `repr`."""

    github_app_id: Annotated[str, AfterValidator(_app_id)] = Field(validation_alias="IMQ_GITHUB_APP_ID")
    github_private_key: Annotated[SecretStr, _secret(private_key)] = Field(validation_alias="IMQ_GITHUB_PRIVATE_KEY")
    """A PEM with real newlines, whatever form it was given in."""
    github_webhook_secret: Annotated[SecretStr, _strong(_ON_BOTH_SIDES)] = Field(
        validation_alias="IMQ_GITHUB_WEBHOOK_SECRET"
    )

    def policy(self) -> Policy:
        return replace(super().policy(), own_app=int(self.github_app_id))


class WorkerSettings(Settings):
    """The settings of a process that receives no webhooks, and so may lack their secret."""

    github_webhook_secret: Annotated[SecretStr, _secret(lambda text: text and strong_secret(text, _ON_BOTH_SIDES))] = (
        Field(SecretStr(""), validation_alias="IMQ_GITHUB_WEBHOOK_SECRET")
    )


_ALIASES = (field.validation_alias for field in Settings.model_fields.values())
_NAMES = frozenset(alias for alias in _ALIASES if isinstance(alias, str))


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return variables with IMQ's prefix that resemble no setting; misspelt ones are refused when loading."""
    return tuple(name for name, meant in unknown_names(_set_variables(environ), _NAMES).items() if meant is None)


def load_settings(environ: Mapping[str, str], *, web: bool = True) -> Settings:
    """Load settings; empty variables are not set. Raises SettingsProblem with all problems, misspelt names too."""
    return _load(Settings if web else WorkerSettings, environ)


def may_be_stored(environ: Mapping[str, str]) -> bool:
    """Whether the credentials may be in the database: a key is set that decrypts them, and none of them is."""
    given = _set_variables(environ)
    return "IMQ_SECRET_KEY" in given and not given.keys() & set(CREDENTIALS)


def load_host_settings(environ: Mapping[str, str]) -> HostSettings:
    """Load the settings without the App's credentials, like `load_settings`."""
    return _load(HostSettings, environ)


def load_queue_settings(environ: Mapping[str, str]) -> QueueSettings:
    """Load the settings of queues alone, like `load_settings`."""
    return _load(QueueSettings, environ)


_S = TypeVar("_S", bound=QueueSettings)


def _load(kind: type[_S], environ: Mapping[str, str]) -> _S:
    given = _set_variables(environ)
    problems = [
        f"{name} is no setting of IMQ: did you mean {meant}?"
        for name, meant in unknown_names(given, _NAMES).items()
        if meant is not None
    ]
    try:
        settings = kind.model_validate(given)
    except ValidationError as error:
        found = [(str(problem["loc"][0]), problem["type"], problem["msg"]) for problem in error.errors()]
        found.sort(key=lambda problem: problem[0] not in CREDENTIALS)
        raise SettingsProblem((*problems, *(_problem(*each) for each in found))) from None
    if problems:
        raise SettingsProblem(tuple(problems))
    return settings


def _set_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if value}


def _problem(place: str, kind: str, message: str) -> str:
    # An invalid default is reported under its field's name.
    field = Settings.model_fields.get(place)
    name = str(field.validation_alias) if field else place
    if kind == "missing":
        return f"{name} is missing: {ADVICE[name]}"
    if kind == "value_error":
        return f"{name} {message.removeprefix('Value error, ')}"
    return f"{name} cannot be used: {ADVICE[name]}"


PREFIX = "IMQ_"

_TESTS = "IMQ_TEST_"
"""The prefix of variables of IMQ's own tests; no setting may begin with it."""

OF_AUTHORS = frozenset({"IMQ_URL", "IMQ_TOKEN"})
"""Variables of the commands for authors, which are no settings of a server."""

_SIMILARITY = 0.8
"""The least similarity of a misspelt name, as difflib measures it."""

_SERVICE_NAME = re.compile(r"_SERVICE_(?:HOST|PORT)(?:_\w+)?$|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$")
_SERVICE_VALUE = re.compile(r"(?:tcp|udp|sctp)://")
"""What Kubernetes sets in every container for a service that is called `imq`, `IMQ_PORT` among it (Kubernetes docs:
Service, environment variables)."""


def unknown_names(environ: Mapping[str, str], known: Collection[str]) -> dict[str, str | None]:
    """Return the variables with IMQ's prefix that are no settings, each with the most similar setting."""
    unknown = sorted(
        name
        for name, value in environ.items()
        if name.upper().startswith(PREFIX)
        and name not in known
        and name not in OF_AUTHORS
        and not name.startswith(_TESTS)
        and not _SERVICE_NAME.search(name)
        and not _SERVICE_VALUE.match(value)
    )
    return {name: nearest(name, known) for name in unknown}


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the most similar setting: by the same words, by similarity, or as the only one with its words."""
    from difflib import get_close_matches

    upper = name.upper()
    for meant in (upper, upper.removeprefix(PREFIX)):
        if meant in known:
            return meant
    if similar := get_close_matches(upper, sorted(known), n=1, cutoff=_SIMILARITY):
        return similar[0]
    words = set(filter(None, upper.removeprefix(PREFIX).split("_")))
    longer = [each for each in known if words and words <= set(each.split("_"))]
    return longer[0] if len(longer) == 1 else None
