"""Remedies for settings that are missing or cannot be used, by name."""

from collections.abc import Mapping

ADVICE: Mapping[str, str] = {
    "IMQ_GITHUB_APP_ID": "set it to the App's numeric id, which stands on the App's settings page",
    "IMQ_GITHUB_PRIVATE_KEY": "set it to the App's private key: the PEM, its base64, or the path of its file",
    "IMQ_GITHUB_WEBHOOK_SECRET": "set it to the secret that was entered as the App's webhook secret",
    "PORT": "give a number from 0 to 65535",
    "IMQ_INTERVAL_SECONDS": "give a number of seconds above 0",
    "IMQ_SWEEP_SECONDS": "give a number of seconds above 0",
    "IMQ_CONCURRENCY": "give a whole number from 1 to 100",
    "IMQ_CHECK_TIMEOUT_SECONDS": "give a number of seconds above 0",
    "IMQ_LEASE_SECONDS": "give a number of seconds above 0",
    "IMQ_MAX_QUEUE_DEPTH": "give a whole number, 0 for no limit",
    "IMQ_TIMELINE_DAYS": "give a whole number of days, 0 to keep the timeline for good",
    "IMQ_TRIGGER_LABEL": "give a label's name of at most 50 characters",
    "IMQ_ORGANIZATION_CONFIG": "give off, tighten or trust",
    "IMQ_SINKS": "give a list of sinks as YAML, or the path of its file (docs/notifications.md)",
    "IMQ_LOG_LEVEL": "give debug, info, warning or error",
    "IMQ_METRICS": "give open or token",
    "IMQ_IDEMPOTENCY_KEY": "give required or optional",
    "IMQ_LOG_FORMAT": "give json or console",
    "IMQ_ALLOW_EPHEMERAL_SQLITE": "give 1 or 0",
    "IMQ_PUBLIC_PAGES": "give 1 or 0",
    "IMQ_CORRECT_WEBHOOK": "give 1 or 0",
}
