"""Every endpoint there is, in the order in which paths are matched."""

from github_emulator.rest.apps import app_settings, apps, deliveries, graphql, meta, teams
from github_emulator.rest.checks import actions, checks, statuses
from github_emulator.rest.pulls import comments, issues, labels, merging, pulls
from github_emulator.rest.repositories import branches, compare, git, git_objects, repositories, repository_labels
from github_emulator.rest.routing import Route

# Reports on commits stand before the commits themselves: a ref in the path may hold slashes.
ROUTES: tuple[Route, ...] = tuple(
    route
    for noun in (
        meta,
        graphql,
        app_settings,
        apps,
        deliveries,
        teams,
        repositories,
        branches,
        git,
        git_objects,
        repository_labels,
        checks,
        actions,
        statuses,
        compare,
        comments,
        labels,
        issues,
        merging,
        pulls,
    )
    for route in noun.routes
)
