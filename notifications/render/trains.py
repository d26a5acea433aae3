"""Render what a train does with a pull request, and what its landing saved. Pure."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from notifications.render.escape import code, link
from notifications.render.formats import commit, duration, pull_request, pull_requests
from notifications.texts import trains as texts
from notifications.texts.kinds import KindText
from queue_engine.domain.notice import Notice, TrainNotice, TrainProgress

_MOST_NUMBERS = 12
"""A train may have a hundred members: a comment names the first few."""


def kind_text(notice: Notice) -> KindText | None:
    """Return the headline and title of a member; None where they are those of any other pull request."""
    return None if notice.train is None else texts.KINDS.get(notice.kind)


def with_candidate_page(notice: Notice, repository: str, website: str | None) -> Notice:
    """Link the commit that a train tests, where no check of it has a page yet; `website` is GitHub's."""
    train = notice.train
    if train is None or train.candidate is None or train.url is not None or website is None:
        return notice
    page = f"{website}/{quote(repository)}/commit/{train.candidate}"
    return notice.model_copy(update={"train": train.model_copy(update={"url": page})})


def member_paragraph(notice: Notice) -> Iterable[str]:
    """Render which run tests the pull request, with whom, and what a bisection does."""
    if notice.train is not None:
        yield " ".join(_sentences(notice.train, notice))


def state_sentence(notice: Notice) -> str | None:
    """Say why a pull request that landed is open, or why IMQ closed it; None for any other."""
    if notice.unlanded_head is not None:
        head, newer = commit(notice.head_sha), commit(notice.unlanded_head)
        return texts.UNLANDED.format(head=head, newer=newer, label=code(notice.trigger_label))
    if not notice.closed_unmerged or notice.landed_sha is None:
        return None
    return texts.CLOSED_UNMERGED.format(base=code(notice.base_branch), commit=commit(notice.landed_sha))


def landing_paragraph(notice: Notice) -> Iterable[str]:
    """Render with whom the pull request landed, and what that saved."""
    landing = notice.landed_with
    if landing is None:
        return
    sentences = []
    if others := _others(landing.members, notice.number):
        sentences.append(texts.LANDED_WITH.format(numbers=_numbers(others)))
    if landing.runs_saved > 0:
        one = landing.runs_saved == 1
        if landing.ci_saved is None:
            template = texts.RUNS_SAVED_ONE if one else texts.RUNS_SAVED
            sentences.append(template.format(count=landing.runs_saved))
        else:
            template = texts.TIME_SAVED_ONE if one else texts.TIME_SAVED
            sentences.append(template.format(count=landing.runs_saved, time=duration(landing.ci_saved)))
    if sentences:
        yield " ".join(sentences)


def suspicion_sentence(suspicion: float, *, failed: bool) -> str:
    """Say the chance that a pull request breaks its run; `failed` if a run with it has failed."""
    template = texts.SUSPICION if failed else texts.SUSPICION_FRESH
    return template.format(chance=chance(suspicion))


def chance(share: float) -> str:
    """Say a chance as a percentage, and in plain words."""
    if share > 0.99:
        return texts.CERTAIN
    if share < 0.01:
        return texts.HARDLY
    return texts.ABOUT.format(percent=round(share * 100), words=_share_words(share))


def _share_words(share: float) -> str:
    if share <= 0.15:
        return texts.ONE_IN.format(count=round(1 / share))
    if share >= 0.95:
        count = round(1 / (1 - share))
        return texts.ALL_BUT_ONE.format(others=count - 1, count=count)
    return texts.OF_TEN.format(count=min(9, max(2, round(share * 10))))


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
    yield from member_sentences(train, notice.number, notice.base_branch)
    if train.url is not None and train.run is not None:
        yield texts.RUN.format(run=link(str(train.run), train.url))


def _steps(train: TrainNotice, others: Sequence[int], base_branch: str) -> Iterable[str]:
    match train.progress:
        case TrainProgress.BUILDING:
            yield texts.BUILDING.format(numbers=_numbers(others)) if others else texts.BUILDING_ALONE
        case TrainProgress.TESTING:
            yield _tested(train, others)
        case TrainProgress.BISECTING:
            yield texts.RUN_FAILED.format(numbers=_numbers(train.failed))
            yield texts.BISECTING.format(numbers=_numbers(train.members)) if train.members else texts.BISECTION_WAITS
            yield texts.NOT_THEIRS
        case TrainProgress.ALONE:
            yield texts.RUN_FAILED.format(numbers=_numbers(train.failed))
            yield texts.BISECTING_ALONE
            yield texts.NOT_THEIRS
        case TrainProgress.PASSED:
            yield texts.PASSED.format(numbers=_numbers(others)) if others else texts.PASSED_ALONE
        case TrainProgress.QUALIFIED:
            yield texts.QUALIFIED.format(base=code(base_branch))
        case TrainProgress.HELD_BACK if train.conflict is not None:
            yield texts.HELD_BACK.format(number=pull_request(train.conflict))
        case TrainProgress.HELD_BACK if train.conflicts:
            yield texts.HELD_BACK_BY_ONE_OF.format(numbers=_numbers(train.conflicts))
        case TrainProgress.HELD_BACK:
            yield texts.HELD_BACK_UNKNOWN
        case TrainProgress.OWN_HEAD:
            yield texts.OWN_HEAD[train.own_head or ""].format(base=code(base_branch))
            yield texts.OWN_HEAD_HOW
        case TrainProgress.FAILED_ALONE:
            yield texts.FAILED_ALONE.format(base=code(base_branch))


def _tested(train: TrainNotice, others: Sequence[int]) -> str:
    branch = code(train.branch or "imq")
    if others:
        return texts.TESTED_TOGETHER.format(numbers=_numbers(others), branch=branch)
    return texts.TESTED_ALONE.format(branch=branch)


def _others(members: Sequence[int], number: int) -> list[int]:
    return [each for each in members if each != number]


def _numbers(found: Sequence[int]) -> str:
    shown = pull_requests(found[:_MOST_NUMBERS])
    more = len(found) - _MOST_NUMBERS
    return f"{shown} and {more} more" if more > 0 else shown
