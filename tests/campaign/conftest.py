"""The campaign on a whole GitHub runs by `make campaign` alone."""

import os

collect_ignore = [] if "IMQ_CAMPAIGN_SECONDS" in os.environ else ["test_github_campaign.py"]
"""Now and then one of its queues makes no progress for minutes after the database was away, which is not mended yet."""
