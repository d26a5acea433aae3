"""Every endpoint there is, in the order in which paths are matched."""

from sandbox.rest import (
    actions,
    app_settings,
    apps,
    branches,
    checks,
    comments,
    compare,
    deliveries,
    git,
    git_objects,
    graphql,
    issues,
    labels,
    merging,
    meta,
    pulls,
    repositories,
    statuses,
)
from sandbox.rest.routing import Route

# Reports on commits stand before the commits themselves: a ref in the path may hold slashes.
ROUTES: tuple[Route, ...] = tuple(
    route
    for noun in (
        meta,
        graphql,
        app_settings,
        apps,
        deliveries,
        repositories,
        branches,
        git,
        git_objects,
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
