"""Shadow mode: the mode of each repository, and what IMQ would have done with the pull requests of those in shadow."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the mode, unknown until the next sweep, and the table of shadowed pull requests."""
    op.add_column("repositories", sa.Column("mode", sa.String(16)))
    op.create_table(
        "shadow_pulls",
        sa.Column("repository_id", sa.BigInteger(), sa.ForeignKey("repositories.id"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("base_branch", sa.String(255), nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("merge_sha", sa.String(64)),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
    )
    op.create_index("ix_shadow_pulls_repository_id_head", "shadow_pulls", ["repository_id", "head"])
    op.create_index("ix_shadow_pulls_repository_id_merge_sha", "shadow_pulls", ["repository_id", "merge_sha"])
