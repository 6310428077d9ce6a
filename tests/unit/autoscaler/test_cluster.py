"""When the caches count as filled."""

from typing import cast

from autoscaler.cluster import Caches
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig


def caches() -> Caches:
    """Caches that are never filled."""
    return Caches(cast("Client", object()), EligibilityConfig(), "", "")


def test_a_cache_that_is_not_filled_yet_is_named_with_its_reason() -> None:
    filled = caches()
    for cache in filled.all[:-1]:
        cache._synced.set()
    filled.all[-1]._failure = "cannot list trainingprofiles: forbidden"
    assert (
        filled.missing()
        == "trainingprofiles not read yet (cannot list trainingprofiles: forbidden)"
    )


def test_a_filled_cache_that_cannot_be_refreshed_counts_as_filled() -> None:
    filled = caches()
    for cache in filled.all:
        cache._synced.set()
    filled.all[0]._failure = "cannot watch tfjobs: no answer"
    assert filled.missing() is None
