"""When the caches count as filled."""

from typing import cast

from autoscaler.cluster import Caches
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig


def caches() -> Caches:
    """Copies that nobody fills."""
    return Caches(cast("Client", object()), EligibilityConfig(), "", "")


def test_a_cache_that_is_not_filled_yet_is_named_with_its_reason() -> None:
    copies = caches()
    for cache in copies.all[:-1]:
        cache._synced.set()
    copies.all[-1]._failure = "cannot list trainingprofiles: forbidden"
    assert (
        copies.missing()
        == "trainingprofiles not read yet (cannot list trainingprofiles: forbidden)"
    )


def test_a_filled_cache_that_cannot_be_refreshed_counts_as_filled() -> None:
    copies = caches()
    for cache in copies.all:
        cache._synced.set()
    copies.all[0]._failure = "cannot watch tfjobs: no answer"
    assert copies.missing() is None
