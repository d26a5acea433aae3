"""Check the sinks: receivers that are gone or fail, and patterns that match nothing. Pure."""

from collections.abc import Collection, Iterator

from bot.doctor.facts import HostFacts
from bot.doctor.finding import Finding
from notifications.sinks.sink import Sink
from notifications.sinks.sink_jobs import matches

_PAGE = "docs/notifications.md"


def sink_findings(host: HostFacts, repositories: Collection[str] | None) -> Iterator[Finding]:
    """Yield the faults of sinks; `repositories` are those that the App sees, None if that is unknown."""
    for sink in host.sinks:
        if sink.name in host.sinks_gone:
            yield _finding(
                "sink_gone",
                f"The receiver of the sink {sink.name} is gone: it refused a message for good.",
                "IMQ sends it nothing more until a restart; its messages are dead letters.",
                "Set its new address in IMQ_SINKS, restart IMQ, and run `imq jobs retry` for its messages.",
            )
        elif sink.name in host.sinks_failing:
            yield _finding(
                "sink_fails",
                f"The receiver of the sink {sink.name} did not accept messages: they are dead letters.",
                "People or programs miss these messages.",
                f"Run `imq sinks test {sink.name}`, correct the receiver, and run `imq jobs retry` for its messages.",
            )
        if repositories and not _matches_any(sink, repositories):
            yield _finding(
                "sink_matches_nothing",
                f"The sink {sink.name} matches no repository that the App sees.",
                "It gets no message.",
                f"Correct its repositories ({', '.join(sink.repositories)}), or remove it.",
            )


def _matches_any(sink: Sink, repositories: Collection[str]) -> bool:
    return any(matches(sink, name) for name in repositories)


def _finding(code: str, finding: str, impact: str, remedy: str) -> Finding:
    return Finding(code, "IMQ", finding, impact, remedy, f"{_PAGE}#when-messages-do-not-arrive")
