"""`imq validate`: report a configuration's faults, or its effect on each branch and on one pull request."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import click

from bot.cli.console import columns, echo, echo_json, json_option
from bot.cli.host import queue_settings, settings
from queue_engine.config.document import ConfigError
from queue_engine.config.file import Config, as_keys, policy_for
from queue_engine.config.keys import Key
from queue_engine.config.model import KEYS, Policy
from queue_engine.config.parse import decoded, read
from queue_engine.config.shared import Levels, levels
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.policy import SharedConfig

_PULL = re.compile(r"(?P<repository>[^/#\s]+/[^/#\s]+)#(?P<number>[1-9]\d{0,9})")


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--against", metavar="OWNER/REPO#N", help="Show what would happen to this pull request now, and why.")
@click.option(
    "--by", metavar="LOGIN", help="With --against: who queues it. Default: who added the label last, or the author."
)
@click.option("--shared", is_flag=True, help="The file is the shared one of an owner's repository .github.")
@click.option(
    "--workflows",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Show what would start CI on trains, by the workflows of the clone in this folder.",
)
@click.option(
    "--branch", metavar="NAME", help="With --workflows: the base branch. Default: the clone's default branch."
)
@click.option(
    "--required", metavar="CHECK", multiple=True, help="With --workflows: a check that GitHub's rules require."
)
@json_option
def validate(
    file: Path | None,
    against: str | None,
    by: str | None,
    shared: bool,
    workflows: Path | None,
    branch: str | None,
    required: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check a repository's configuration, `.github/imq.yml`, and show what differs from the defaults.

    The operator's settings fill in what the file leaves out. The exit code is 1 if the file has a problem, or if no
    trigger of --workflows starts CI. The command changes nothing. Only --against needs all settings; it asks GitHub,
    and reads IMQ's database if it can. With --workflows no App is needed, and FILE is by default the clone's own.
    """
    if file is None and workflows is None:
        raise click.MissingParameter(param_type="argument", param_hint="'FILE'")
    if file is None:
        assert workflows is not None
        own = workflows / ".github/imq.yml"
        file = own if own.is_file() else None
    pull = _PULL.fullmatch(against) if against is not None else None
    if against is not None and pull is None:
        raise click.BadParameter("write OWNER/REPO#N, such as acme/rocket#12", param_hint="--against")
    chosen = queue_settings()
    content, defaults = b"" if file is None else file.read_bytes(), chosen.policy()
    allowed = chosen.organization_config if shared else SharedConfig.TRUST
    try:
        config = read(decoded(content), defaults)
    except ConfigError as error:
        _show(_problems_as_data(error) if as_json else _problems(file or Path(), content, error))
        raise SystemExit(1) from None
    if workflows is not None:
        _show_triggers(workflows, config, defaults, branch, required, as_json)
        return
    if pull is None:
        found = levels(config, defaults, allowed)
        verdict = f"{file} is valid{_shared_verdict(found, allowed) if shared else ''}."
        _show(_effect_as_data(found) if as_json else _effect_as_text(verdict, found))
        return
    operators = settings(quiet=True)
    # Imported when needed: without --against the command answers at once.
    from bot.cli.dry_run import dry_run

    result = asyncio.run(dry_run(operators, config, pull["repository"], int(pull["number"]), by=by, shared=shared))
    _show(result.as_json() if as_json else result.as_text())


def _show_triggers(
    folder: Path, config: Config, defaults: Policy, branch: str | None, required: tuple[str, ...], as_json: bool
) -> None:
    # Imported when needed, as below.
    from bot.cli.triggers import Clone, clone_report

    clone = Clone(folder)
    base = branch or clone.default_branch()
    report = asyncio.run(clone_report(clone, policy_for(config, defaults, base), base, required))
    _show(report.as_json() if as_json else report.as_text())
    if not report.has_trigger:
        raise SystemExit(1)


def _problems(file: Path, content: bytes, error: ConfigError) -> str:
    """Format every problem with its line of the file."""
    lines = content.decode("utf-8", errors="replace").splitlines()
    count = len(error.problems)
    parts = [f"{file} has {count} problem{'' if count == 1 else 's'}:"]
    for problem in error.problems:
        line = lines[problem.line - 1] if problem.line <= len(lines) else ""
        excerpt = "".join(char if char.isprintable() else " " for char in line.expandtabs(4)).rstrip()[:120]
        parts.append(f"\n{problem}" + (f"\n    {excerpt}" if excerpt else ""))
    return "\n".join(parts)


def _problems_as_data(error: ConfigError) -> dict[str, Any]:
    found = [{"line": each.line, "place": each.place, "sentence": each.sentence} for each in error.problems]
    return {"valid": False, "problems": found}


def _effect_as_data(found: Levels) -> dict[str, Any]:
    rules = [{"match": list(patterns), **as_keys(policy)} for patterns, policy in found[1:]]
    ignored = {"not_followed": sentences} if (sentences := _not_followed(found)) else {}
    ignored |= {"expired": sentences} if (sentences := _expired(found)) else {}
    return {"valid": True, "rules": as_keys(found[0][1]), "branches": rules, **ignored}


def _not_followed(found: Levels) -> list[str]:
    """List the ignored parts of a shared configuration, each once."""
    return list(dict.fromkeys(sentence for _, policy in found for sentence in policy.not_followed))


def _shared_verdict(found: Levels, allowed: SharedConfig) -> str:
    """Say how much of a valid file applies to the owner's other repositories."""
    if allowed is SharedConfig.OFF:
        return ", but not shared with other repositories: IMQ_ORGANIZATION_CONFIG is off"
    ignored = len(_not_followed(found))
    keys = f", but {ignored} of its keys {'is' if ignored == 1 else 'are'} ignored" if ignored else ""
    return f"{keys}; it is used only while the default branch of .github requires an approving review"


def _effect_as_text(verdict: str, found: Levels) -> str:
    """Format what differs from the defaults, and of each rule what differs from the other branches."""
    (_, common), *rules = found
    parts = [verdict, *_expired(found)]
    if sentences := _not_followed(found):
        parts.append("\n".join(["Ignored:", *(f"- {sentence}" for sentence in sentences)]))
    every = "All other base branches" if rules else "All base branches"
    parts.append(_differences(every, "the defaults", common, "default", Policy()))
    parts += [
        _differences(", ".join(patterns), "as above", policy, "other branches", common) for patterns, policy in rules
    ]
    return "\n\n".join((*parts, "Every key that is not listed has its default; --json prints all."))


def _expired(found: Levels) -> list[str]:
    """Name the flaky checks whose last day is over."""
    listed = dict.fromkeys(each for _, policy in found for each in policy.checks.flaky)
    now = SystemClock().now()
    return [
        f"checks.flaky: {each.name} expired after {each.until}. IMQ reruns it like any other check."
        for each in listed
        if not each.counts(now)
    ]


def _differences(branches: str, same: str, policy: Policy, title: str, other: Policy) -> str:
    """Format the keys in which a policy differs from another one, as a table under the branches."""
    rows = [
        (key.name, _shown(value), _shown(usual))
        for key in KEYS
        if (value := _value(key, policy)) != (usual := _value(key, other))
    ]
    return f"{branches}:\n{columns(('key', 'value', title), rows)}" if rows else f"{branches}: {same}"


def _value(key: Key, policy: Policy) -> Any:
    return key.kind.shown(getattr(key.within(policy), key.last))


def _shown(value: Any) -> str:
    """Format a value for a cell, as the file may have it; a dash for an empty one."""
    if isinstance(value, list):
        value = ", ".join(map(_shown, value))
    return "-" if value in (None, "", {}) else value if isinstance(value, str) else json.dumps(value)


def _show(answer: str | dict[str, Any]) -> None:
    if isinstance(answer, str):
        echo(answer)
    else:
        echo_json(answer)
