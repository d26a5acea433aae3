"""Select which due queues to claim first, so that a busy repository does not keep others waiting."""

from sqlalchemy import BindParameter, ColumnElement, Integer, Select, and_, bindparam, case, func, or_, select

from queue_engine.core.database.database import DatabaseInstant
from queue_engine.store.tables import queues, repositories

_NOW = bindparam("now", type_=DatabaseInstant)

OWN: ColumnElement[bool] = and_(queues.c.lease_owner == bindparam("owner"), queues.c.leased_until > _NOW)
"""Leased by `owner`."""

DUE: ColumnElement[bool] = and_(
    queues.c.due_at <= _NOW, or_(queues.c.leased_until.is_(None), queues.c.leased_until <= _NOW)
)
"""Due, and not leased."""


def _fair_order() -> Select[int]:
    without: BindParameter[int] = bindparam("without", expanding=True)
    # Queues under way come first in every count, so that the round continues from them.
    waits = case((OWN, 0), else_=1)
    row = func.row_number()
    of_repository = row.over(partition_by=queues.c.repository_id, order_by=(waits, queues.c.due_at, queues.c.id))
    one = (
        select(
            queues.c.id,
            queues.c.due_at,
            repositories.c.installation_id,
            waits.label("waits"),
            of_repository.label("place"),
        )
        .join(repositories)
        .where(or_(OWN, and_(DUE, queues.c.id.not_in(without))))
        .subquery()
        .c
    )
    of_installation = row.over(partition_by=one.installation_id, order_by=(one.waits, one.place, one.due_at, one.id))
    each = (
        select(one.id, one.due_at, one.waits, one.place, of_installation.label("round"))
        .where(or_(one.waits == 0, one.place <= bindparam("of_repository", type_=Integer)))
        .subquery()
        .c
    )
    return (
        select(each.id)
        .where(each.waits == 1, each.round <= bindparam("of_installation", type_=Integer))
        .order_by(each.round, each.place, each.due_at, each.id)
        .limit(bindparam("at_most", type_=Integer))
    )


FAIR_ORDER = _fair_order()
"""Ids of the next `at_most` queues to claim, in order, `without` those that were tried.

Round robin over installations, within them over repositories, and within these the longest due queue first. The queues
that `owner` has under way count. `of_repository` and `of_installation` bound how many of one it has at once.
"""
