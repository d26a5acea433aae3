"""Render what a search for the culprit found, for the comment of the pull request that it names. Pure."""

from collections.abc import Iterable

from notifications.render.escape import code, commit, instant, link, mention, pull_request
from notifications.texts.history import CULPRIT_OUTCOMES
from queue_engine.domain.culprit import CommitResult, CulpritOutcome, CulpritRecord
from queue_engine.domain.notice import Notice

NAMED = "**Since this pull request landed, {base} fails {check}, with a probability of {probability} %.**{people}"
CONTRADICTED = (
    "IMQ took this pull request for the cause of {check} failing on {base}. Later runs contradict that: "
    "it is not known what broke the base."
)
EVIDENCE = "IMQ tested landed commits again, at {time}:"
RESULT = "- {commit}{landed}: {result}"
LANDED = ", {number}"
PASSED, FAILED, ON_BASE = "passed", "failed", "{result} on the base"
REVERTED = "IMQ opened {revert}, which reverts this pull request."
REVERT = "To take it back, comment `/revert`: IMQ opens the revert and queues it as a hotfix."
RELAND = "To land the change again after that, comment `/reland`."
_MOST = 20


def culprit_paragraphs(notice: Notice) -> Iterable[str]:
    """Say what broke the base, by which runs, and what to do next."""
    if (search := notice.culprit) is None or search.probability is None:
        return
    names = {"base": code(notice.base_branch), "check": code(search.check)}
    reverted = REVERT if search.revert is None else REVERTED.format(revert=pull_request(search.revert))
    if search.outcome is CulpritOutcome.UNCERTAIN:
        yield CONTRADICTED.format(**names)
        if search.revert is not None:
            yield f"{reverted} {RELAND}"
        return
    people = [each for person in notice.people if (each := mention(person)) is not None]
    shown = f" {' '.join(people)}" if people else ""
    yield NAMED.format(**names, probability=int(search.probability * 100), people=shown)
    last = search.results[-1].at
    lines = [_line(search, each) for each in search.results[-_MOST:]]
    yield "\n".join([EVIDENCE.format(time=instant(last)), "", *lines])
    yield f"{reverted} {RELAND}"


def culprit_sentence(search: CulpritRecord, base: str) -> str:
    """Say what a search found, or that it has not ended."""
    outcome = search.outcome.value if search.outcome is not None else "named" if search.culprit is not None else ""
    return CULPRIT_OUTCOMES[outcome].format(base=code(base))


def _line(search: CulpritRecord, result: CommitResult) -> str:
    tested = search.commits[result.place]
    word = PASSED if result.passed else FAILED
    if result.on_base:
        word = ON_BASE.format(result=word)
    landed = "" if tested.number is None else LANDED.format(number=pull_request(tested.number))
    return RESULT.format(commit=commit(tested.sha), landed=landed, result=link(word, result.url))
