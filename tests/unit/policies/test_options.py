"""Options of a policy from plain values, as a file holds them."""

import pytest

from optimus.allocation.options import with_options
from optimus.policies import POLICIES, policy_named, policy_options
from optimus.policies.gavel_las import GavelLasPolicy
from optimus.policies.optimus import OptimusPolicy
from optimus.policies.optimus_paper import OptimusPaperPolicy, StopRule, Tie
from tests.cases import cases


def test_options_that_are_not_given_keep_their_defaults() -> None:
    made = with_options(OptimusPolicy, {"min-gain-fraction": 0, "look-ahead": 3})
    assert made == OptimusPolicy(min_gain_fraction=0.0, look_ahead=3)
    assert with_options(OptimusPaperPolicy, {"stop": "task"}) == OptimusPaperPolicy(
        stop=StopRule.TASK, tie=Tie.PS
    )
    assert with_options(GavelLasPolicy, {"reset-rounds": 3}) == GavelLasPolicy(reset_rounds=3)


@cases(
    ("policy", "options", "sentence"),
    {
        "has no options": ("drf", {"a": 1}, "there is no option 'a': it has none"),
        "a wrong name": (
            "optimus",
            {"lookahead": 1},
            "there is no option 'lookahead': its options are min-gain-fraction, look-ahead",
        ),
        "a fraction of a task": (
            "optimus",
            {"look-ahead": 2.5},
            "look-ahead: a whole number of 0 or more is expected, not 2.5",
        ),
        "not a number": (
            "optimus",
            {"min-gain-fraction": float("nan")},
            "min-gain-fraction: a number of 0 or more is expected, not nan",
        ),
        "a value that is not among the names": (
            "optimus-paper",
            {"tie": "chief"},
            "tie: ps or worker is expected, not 'chief'",
        ),
    },
)
def test_an_option_that_cannot_be_used_is_refused_with_a_sentence(
    policy: str, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        policy_named(policy, options)
    assert str(caught.value) == sentence


def test_a_file_of_options_names_policies_and_their_options() -> None:
    read = policy_options({"gavel-las": {"reset-rounds": 3}, "optimus-paper": None})
    assert read == {"gavel-las": {"reset-rounds": 3}, "optimus-paper": {}}
    assert policy_options(None) == {}


@cases(
    ("value", "sentence"),
    {
        "a list": (["optimus"], "a mapping of policies is expected, not ['optimus']"),
        "a name": ({"sjf": {}}, f"there is no policy 'sjf': there are {', '.join(POLICIES)}"),
        "a value for options": ({"drf": 1}, "a mapping of options of drf is expected, not 1"),
        "a value that an option does not take": (
            {"optimus": {"look-ahead": "far"}},
            "optimus: look-ahead: a whole number of 0 or more is expected, not 'far'",
        ),
    },
)
def test_a_file_that_cannot_be_used_is_refused_with_a_sentence(
    value: object, sentence: str
) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        policy_options(value)
    assert str(caught.value) == sentence
