"""P1: the record of a landing calls equal only what was tested."""

from collections.abc import Sequence

from queue_engine.domain.landing_record import CheckProof, LandingProof, LandingResult, result_of

PROOF = LandingProof((CheckProof("ci/test", "success", "candidate"),), None, "configuration")
UNCHECKED = LandingProof((), None, "configuration")


def test_verdict_is_equal_only_for_the_tested_tree_with_a_check() -> None:
    """Another tree is a mismatch, unless only files differ that need no test; what is not known is unproved."""
    cases: list[tuple[str | None, Sequence[str], LandingProof | None, LandingResult]] = [
        ("landed", (), PROOF, LandingResult.EQUAL),
        ("other", (), PROOF, LandingResult.MISMATCH),
        ("other", (), None, LandingResult.MISMATCH),
        ("other", ("README.md",), PROOF, LandingResult.EXEMPT),
        ("other", ("README.md",), UNCHECKED, LandingResult.UNPROVED),
        (None, (), PROOF, LandingResult.UNPROVED),
        ("landed", (), None, LandingResult.UNPROVED),
        ("landed", (), UNCHECKED, LandingResult.UNPROVED),
    ]
    for tested, untested, proof, expected in cases:
        assert result_of("landed", tested, untested, proof)["result"] == expected, (tested, untested, proof)
