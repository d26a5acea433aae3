"""Endpoints of the comments on an issue or pull request, and of reactions to them."""

from functools import partial

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, invalid, invalid_request, not_accessible, not_found
from github_emulator.domain.pulls.conversation import REACTIONS
from github_emulator.rest import fields
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.pulls.issues import since
from github_emulator.rest.routing import Routes
from github_emulator.state import Comment, PullRequest

routes = Routes("issues/comments")
_READ = ("issues=read", "pull_requests=read")
_WRITE = ("issues=write", "pull_requests=write")
_LONGEST = 65536


@routes.repository("GET", "/issues/{number}/comments", *_READ, docs="#list-issue-comments")
def list_comments(call: Call) -> Answer:
    """Oldest first."""
    pull, start = call.pull, since(call.query.get("since"))
    comments = [comment for comment in pull.comments.values() if start is None or comment.updated_at >= start]
    return call.page(comments, lambda comment: payloads.comment(call.github.source, pull, comment))


@routes.repository("GET", "/issues/comments", *_READ, docs="#list-issue-comments-for-a-repository")
def list_repository_comments(call: Call) -> Answer:
    """Those on all issues, by id; `direction` counts beside `sort` only (docs, "List issue comments ...")."""
    start, sort = since(call.query.get("since")), call.query.get("sort")
    found = [(pull, comment) for pull in call.repository.pulls.values() for comment in pull.comments.values()]
    found = [each for each in found if start is None or each[1].updated_at >= start]
    found.sort(key=lambda each: each[1].id)
    if sort in ("created", "updated"):
        name = f"{sort}_at"
        found.sort(key=lambda each: (getattr(each[1], name), each[1].id), reverse=call.query.get("direction") == "desc")
    return call.page(found, lambda each: payloads.comment(call.github.source, *each))


@routes.repository("POST", "/issues/{number}/comments", *_WRITE, creates=True, docs="#create-an-issue-comment")
def create_comment(call: Call) -> Answer:
    """Says something."""
    pull = call.pull
    body = _body(call)
    comment = call.github.conversation.comment(pull, body, actor=call.actor)
    return Answer(payloads.comment(call.github.source, pull, comment), 201)


@routes.repository("GET", "/issues/comments/{comment_id}", *_READ, docs="#get-an-issue-comment")
def get_comment(call: Call) -> Answer:
    """One comment."""
    return Answer(payloads.comment(call.github.source, *_comment(call)))


@routes.repository("PATCH", "/issues/comments/{comment_id}", *_WRITE, docs="#update-an-issue-comment")
def update_comment(call: Call) -> Answer:
    """Replaces what was said."""
    pull, comment = _comment(call)
    call.github.conversation.edit_comment(pull, comment, _body(call), actor=call.actor)
    return Answer(payloads.comment(call.github.source, pull, comment))


@routes.repository("DELETE", "/issues/comments/{comment_id}", *_WRITE, docs="#delete-an-issue-comment")
def delete_comment(call: Call) -> Answer:
    """Takes it back."""
    if call.github.behaviour.deletions_need_issues and not call.actor.may("issues"):
        raise not_accessible("issues=write")
    pull, comment = _comment(call)
    call.github.conversation.delete_comment(pull, comment, actor=call.actor)
    return Answer(None, 204)


@routes.repository(
    "POST",
    "/issues/comments/{comment_id}/reactions",
    *_WRITE,
    docs="reactions/reactions#create-reaction-for-an-issue-comment",
)
def react(call: Call) -> Answer:
    """Reacts; doing it again is 200 instead of 201."""
    _, comment = _comment(call)
    content = call.take("content", str)
    if content not in REACTIONS:
        raise invalid_request(f"For 'properties/content', {content} is not a member of {list(REACTIONS)}.")
    before = len(comment.given)
    reaction = call.github.conversation.react(comment, content, actor=call.actor)
    return Answer(fields.reaction(call.github, reaction), 201 if len(comment.given) > before else 200)


@routes.repository(
    "GET",
    "/issues/comments/{comment_id}/reactions",
    *_READ,
    docs="reactions/reactions#list-reactions-for-an-issue-comment",
)
def list_reactions(call: Call) -> Answer:
    """Who reacted how, oldest first; with `content` one word only."""
    _, comment = _comment(call)
    wanted = call.query.get("content")
    found = [reaction for reaction in comment.given if wanted in (None, reaction.content)]
    return call.page(found, partial(fields.reaction, call.github))


def _comment(call: Call) -> tuple[PullRequest, Comment]:
    wanted = call.number("comment_id")
    for pull in call.repository.pulls.values():
        if wanted in pull.comments:
            return pull, pull.comments[wanted]
    raise not_found()


def _body(call: Call) -> str:
    body = call.take("body", str)
    if not body.strip():
        raise invalid("IssueComment", "body", "missing_field")
    if len(body) > _LONGEST:
        raise Refusal(
            422,
            "Validation Failed",
            errors=[
                {
                    "resource": "IssueComment",
                    "code": "unprocessable",
                    "field": "data",
                    "message": f"Body is too long (maximum is {_LONGEST} characters)",
                }
            ],
        )
    return body
