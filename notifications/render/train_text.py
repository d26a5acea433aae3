"""Render what a train does with a pull request, and what its landing saved. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from notifications.render.escape import code, commit, duration, link, pull_request
from notifications.render.failing_checks import numbers_text as _numbers
from notifications.render.failing_checks import run_sentence
from notifications.texts.headlines import KindText
from queue_engine.domain.notice import Notice, NoticeKind, TrainNotice, TrainProgress

KINDS: Mapping[NoticeKind, KindText] = {
    NoticeKind.UPDATING: KindText("⏳ Merging it onto a train's branch for {base}", "Joining a train"),
    NoticeKind.CHECKING: KindText("⏳ Waiting for the checks of its train for {base}", "Waiting for checks of a train"),
    NoticeKind.READY: KindText("⏳ Checks of its train passed, landing on {base}", "Checks of a train passed, landing"),
}
"""Replace the texts of these kinds while a train tests the pull request."""

BUILDING = "IMQ merges it with {numbers} onto one branch, to test them in one CI run."
BUILDING_ALONE = "IMQ merges it onto a branch, to test it there."
TESTED_TOGETHER = "IMQ tests it with {numbers} in one CI run, on the branch {branch}."
TESTED_ALONE = "IMQ tests it alone, on the branch {branch}."
RUN_FAILED = "A CI run of {numbers} failed."
BISECTING = "IMQ tests parts of that run to find the cause; this part has {numbers}."
BISECTING_ALONE = "IMQ tests this pull request alone to find the cause."
BISECTION_WAITS = "IMQ tests other parts of that run first, to find the cause."
NOT_THEIRS = "If another pull request of the run is the cause, this one stays in the queue."
PASSED = "It passed with {numbers} in one CI run, which lands next."
PASSED_ALONE = "It passed alone, and lands next."
QUALIFIED = "It passed in a CI run with others, and lands with the next run that passes on top of {base}."
HELD_BACK = "It conflicts with {number}, so IMQ tries it again when {number} has landed or left."
HELD_BACK_BY_ONE_OF = "It conflicts with one of {numbers}; IMQ tries it again when that has landed or left."
FILLING = "It waits for other pull requests that IMQ can test together with it."
HELD_BACK_UNKNOWN = "It conflicts with a pull request ahead of it; IMQ tries it again when that has landed or left."
OWN_HEAD: Mapping[str, str] = {
    "asked": "It was queued by `/queue alone`.",
    "forks_off": "It comes from a fork, and `trains.forks` is off for {base}.",
    "unreviewed": "It comes from a fork, and no one with write access has approved its present head.",
    "workflows": "It comes from a fork, and changes workflow files or local actions.",
    "unknown": "It comes from a fork, and GitHub does not show whether it changes workflow files or local actions.",
}
OWN_HEAD_ASKED = "So IMQ tests it alone, by its own head, after those ahead of it."
OWN_HEAD_HOW = "So IMQ tests it alone, by its own head, after those ahead of it: on a train's branch CI has secrets."
RUN = "CI run: {run}."

CLOSED_UNMERGED = "GitHub did not show it as merged within a day, although {base} contains {commit}. So IMQ closed it."
UNLANDED = (
    "{head} landed. The newer commits, up to {newer}, did not land, so the pull request is still open. To queue them, "
    "comment `/queue` or add the label {label}."
)
UNLANDED_BASE = (
    "{head} landed. The base branch of the pull request is {base} now, so it is still open. To queue it there, comment "
    "`/queue` or add the label {label}."
)
LANDED_WITH = "It landed with {numbers}, tested in one CI run."
RUNS_SAVED_ONE = "The train saved 1 CI run."
RUNS_SAVED = "The train saved {count} CI runs."
TIME_SAVED_ONE = "The train saved 1 CI run, about {time} of CI."
TIME_SAVED = "The train saved {count} CI runs, about {time} of CI."

SUSPICION = "The chance that this pull request breaks its run is {chance}."
SUSPICION_FRESH = "The chance that this pull request breaks its run is {chance}: so many earlier ones did."
CERTAIN, HARDLY = "more than 99 %", "less than 1 %"
ABOUT = "about {percent} % ({words})"
ONE_IN, ALL_BUT_ONE = "1 in {count}", "{others} in {count}"
OF_TEN = "{count} in 10"


def kind_text(notice: Notice) -> KindText | None:
    """Return the headline and title of a member; None where they are those of any other pull request."""
    return None if notice.train is None else KINDS.get(notice.kind)


def with_candidate_page(notice: Notice, repository: str, website: str | None) -> Notice:
    """Link the commit that a train tests, where no check of it has a page yet; `website` is GitHub's."""
    train = notice.train
    if train is None or train.candidate is None or train.url is not None or website is None:
        return notice
    page = f"{website}/{quote(repository)}/commit/{train.candidate}"
    return notice.model_copy(update={"train": train.model_copy(update={"url": page})})


def member_paragraph(notice: Notice) -> Iterable[str]:
    """Render which run tests the pull request, with whom, and what a bisection does."""
    if notice.train is not None and (sentences := " ".join(_sentences(notice.train, notice))):
        yield sentences


def state_sentence(notice: Notice) -> str | None:
    """Say why a pull request that landed is open, or why IMQ closed it; None for any other."""
    if notice.unlanded_head is not None:
        head, newer = commit(notice.head_sha), commit(notice.unlanded_head)
        return UNLANDED.format(head=head, newer=newer, label=code(notice.trigger_label))
    if notice.unlanded_base is not None:
        head, base = commit(notice.head_sha), code(notice.unlanded_base)
        return UNLANDED_BASE.format(head=head, base=base, label=code(notice.trigger_label))
    if not notice.closed_unmerged or notice.landed_sha is None:
        return None
    return CLOSED_UNMERGED.format(base=code(notice.base_branch), commit=commit(notice.landed_sha))


def landing_paragraph(notice: Notice) -> Iterable[str]:
    """Render with whom the pull request landed, and what that saved."""
    landing = notice.landed_with
    if landing is None:
        return
    sentences = []
    if others := _others(landing.members, notice.number):
        sentences.append(LANDED_WITH.format(numbers=_numbers(others)))
    if landing.runs_saved > 0:
        one = landing.runs_saved == 1
        if landing.ci_saved is None:
            template = RUNS_SAVED_ONE if one else RUNS_SAVED
            sentences.append(template.format(count=landing.runs_saved))
        else:
            template = TIME_SAVED_ONE if one else TIME_SAVED
            sentences.append(template.format(count=landing.runs_saved, time=duration(landing.ci_saved)))
    if sentences:
        yield " ".join(sentences)


def suspicion_sentence(suspicion: float, *, failed: bool) -> str:
    """Say the chance that a pull request breaks its run; `failed` if a run with it has failed."""
    template = SUSPICION if failed else SUSPICION_FRESH
    return template.format(chance=chance(suspicion))


def chance(share: float) -> str:
    """Say a chance as a percentage, and in plain words."""
    if share > 0.99:
        return CERTAIN
    if share < 0.01:
        return HARDLY
    return ABOUT.format(percent=round(share * 100), words=_share_words(share))


def _share_words(share: float) -> str:
    if share <= 0.15:
        return ONE_IN.format(count=round(1 / share))
    if share >= 0.95:
        count = round(1 / (1 - share))
        return ALL_BUT_ONE.format(others=count - 1, count=count)
    return OF_TEN.format(count=min(9, max(2, round(share * 10))))


def train_text(train: TrainNotice, number: int, base_branch: str) -> list[str]:
    """Return what a train does with one member and how likely it breaks its run, in sentences."""
    sentences = member_sentences(train, number, base_branch)
    if train.suspicion is not None:
        sentences.append(suspicion_sentence(train.suspicion, failed=bool(train.failed)))
    return sentences


def member_sentences(train: TrainNotice, number: int, base_branch: str) -> list[str]:
    """Return what a train does with one member, in sentences."""
    return list(_steps(train, _others(train.members, number), base_branch))


def _sentences(train: TrainNotice, notice: Notice) -> Iterable[str]:
    if notice.failure is None:
        yield from member_sentences(train, notice.number, notice.base_branch)
    if train.url is not None and train.run is not None:
        yield RUN.format(run=link(str(train.run), train.url))


def _steps(train: TrainNotice, others: Sequence[int], base_branch: str) -> Iterable[str]:
    match train.progress:
        case TrainProgress.BUILDING:
            yield BUILDING.format(numbers=_numbers(others)) if others else BUILDING_ALONE
        case TrainProgress.TESTING:
            yield _tested(train, others)
        case TrainProgress.BISECTING:
            yield RUN_FAILED.format(numbers=_numbers(train.failed))
            yield BISECTING.format(numbers=_numbers(train.members)) if train.members else BISECTION_WAITS
            yield NOT_THEIRS
        case TrainProgress.ALONE:
            yield RUN_FAILED.format(numbers=_numbers(train.failed))
            yield BISECTING_ALONE
            yield NOT_THEIRS
        case TrainProgress.PASSED:
            yield PASSED.format(numbers=_numbers(others)) if others else PASSED_ALONE
        case TrainProgress.QUALIFIED:
            yield QUALIFIED.format(base=code(base_branch))
        case TrainProgress.HELD_BACK if train.conflict is not None:
            yield HELD_BACK.format(number=pull_request(train.conflict))
        case TrainProgress.HELD_BACK if train.conflicts:
            yield HELD_BACK_BY_ONE_OF.format(numbers=_numbers(train.conflicts))
        case TrainProgress.HELD_BACK:
            yield HELD_BACK_UNKNOWN
        case TrainProgress.OWN_HEAD:
            yield OWN_HEAD[train.own_head or ""].format(base=code(base_branch))
            yield OWN_HEAD_ASKED if train.own_head == "asked" else OWN_HEAD_HOW
        case TrainProgress.FILLING:
            yield FILLING
        case TrainProgress.FAILED_ALONE:
            yield run_sentence(others, base_branch)


def _tested(train: TrainNotice, others: Sequence[int]) -> str:
    branch = code(train.branch or "imq")
    if others:
        return TESTED_TOGETHER.format(numbers=_numbers(others), branch=branch)
    return TESTED_ALONE.format(branch=branch)


def _others(members: Sequence[int], number: int) -> list[int]:
    return [each for each in members if each != number]
