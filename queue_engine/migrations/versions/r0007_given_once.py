"""Stores priority and sender of held requests, the replies to each comment, and the App that reported a red base."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Give who waits its vouched labels, who is held its priority, and answers their comment as a part of their key.

    Who waits already has no label that anybody is known to have vouched for; what it stands by in its queue it keeps.
    """
    for table in ("entries", "held"):
        op.add_column(table, sa.Column("vouched", sa.JSON(), nullable=False, server_default=sa.text("'[]'")))
    op.add_column("held", sa.Column("priority", sa.Integer()))
    op.add_column("queues", sa.Column("beneath", sa.JSON()))
    # A base that is red already is not known by its App: it is looked at, let go, and found red again if it is.
    op.add_column("queues", sa.Column("red_app", sa.BigInteger()))
    # SQLite changes no key of a table that stands: there the table is made anew, and its rows are copied.
    with op.batch_alter_table("answers") as answers:
        answers.drop_constraint("pk_answers", type_="primary")
        answers.create_primary_key("pk_answers", ["repository_id", "number", "comment_id"])
