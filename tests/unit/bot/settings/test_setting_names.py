"""Misspelt settings: what was probably meant, and what only looks like a setting."""

import pytest

from bot.settings.environment import (
    SettingsProblem,
    load_queue_settings,
    load_settings,
    nearest,
    unknown_names,
    unknown_variables,
)

KNOWN = (
    "DATABASE_URL",
    "PORT",
    "IMQ_METRICS",
    "IMQ_GITHUB_API_URL",
    "IMQ_GITHUB_APP_ID",
    "IMQ_LOG_LEVEL",
    "IMQ_LOG_FORMAT",
)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("IMQ_METRIC", "IMQ_METRICS"),
        ("IMQ_GITHUB_API_ULR", "IMQ_GITHUB_API_URL"),
        ("imq_metrics", "IMQ_METRICS"),
        ("IMQ_PORT", "PORT"),
        ("IMQ_DATABASE_URL", "DATABASE_URL"),
        ("IMQ_APP_ID", "IMQ_GITHUB_APP_ID"),
        ("IMQ_LOG", None),
        ("IMQ_", None),
        ("IMQ_REGION", None),
    ],
)
def test_misspelt_name_finds_the_setting_that_was_meant(name: str, meant: str | None) -> None:
    """The nearest name wins by spelling, or by its words where only one setting has them."""
    assert nearest(name, KNOWN) == meant


def test_variables_of_others_are_no_misspelt_settings() -> None:
    """Kubernetes sets such variables for a service called imq, and IMQ has to start there."""
    kubernetes = {
        "IMQ_PORT": "tcp://10.0.0.1:8080",
        "IMQ_SERVICE_HOST": "10.0.0.1",
        "IMQ_SERVICE_PORT_HTTP": "8080",
        "IMQ_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert unknown_names({**kubernetes, "PATH": "/bin", "IMQ_METRICS": "open", "IMQ_REGION": "eu"}, KNOWN) == {
        "IMQ_REGION": None
    }


def test_misspelt_setting_stops_the_start_beside_all_other_problems() -> None:
    """`IMQ_METRIC=token` must not leave the metrics open to everybody."""
    environ = {"IMQ_METRIC": "token", "IMQ_LOG_LEVEL": "loud", "IMQ_REGION": "eu", "IMQ_SWEEPS_SECONDS": " "}
    with pytest.raises(SettingsProblem) as caught:
        load_settings(environ)
    assert caught.value.problems[0] == "IMQ_METRIC is no setting of IMQ: did you mean IMQ_METRICS?"
    assert {problem.split()[0] for problem in caught.value.problems} >= {"IMQ_LOG_LEVEL", "IMQ_GITHUB_APP_ID"}
    with pytest.raises(SettingsProblem, match="IMQ_METRIC is no setting"):
        load_queue_settings(environ)
    assert unknown_variables(environ) == ("IMQ_REGION",)
