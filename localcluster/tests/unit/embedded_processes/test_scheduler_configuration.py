"""The files that kube-scheduler's stand-in reads are kube-scheduler's own."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.embedded.scheduler.configuration import (
    BadConfiguration,
    Configuration,
    ElectionConfiguration,
    ExtenderConfiguration,
    read_configuration,
)
from tests.cases import cases

REPOSITORY = Path(__file__).resolve().parents[4]


class TestConfiguration:
    @pytest.mark.parametrize("name", ["kube-scheduler-config.yaml", "advisory.yaml"])
    def test_the_products_own_files_are_read(self, name: str) -> None:
        read = read_configuration((REPOSITORY / "scheduler-config" / name).read_text())
        advisory = name == "advisory.yaml"
        expected = ExtenderConfiguration(
            "http://127.0.0.1:8888",
            "" if advisory else "filter",
            "prioritize",
            weight=121,
            ignorable=advisory,
        )
        assert read == Configuration(
            frozenset({"optimus-scheduler"}),
            (expected,),
            ElectionConfiguration("kube-system", "optimus-scheduler", 10.0, 7.0, 1.0),
        )

    def test_the_products_file_for_the_clusters_own_scheduler_is_read(self) -> None:
        file = REPOSITORY / "scheduler-config" / "cluster-scheduler.yaml"
        read = read_configuration(file.read_text())
        assert read.scheduler_names == {"default-scheduler"}
        assert read.election == ElectionConfiguration("kube-system", "kube-scheduler")

    def test_durations_are_gos(self) -> None:
        election = {"leaseDuration": "1m30s", "renewDeadline": "500ms", "retryPeriod": "2s"}
        read = read_configuration(configuration(leaderElection=election)).election
        assert read == ElectionConfiguration("kube-system", "kube-scheduler", 90.0, 0.5, 2.0)

    @cases(
        ("text", "why"),
        {
            "another document": ("[]", "holds no KubeSchedulerConfiguration"),
            "what is not called here": (
                yaml.safe_dump(
                    {
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "kind": "KubeSchedulerConfiguration",
                        "extenders": [{"urlPrefix": "http://x", "bindVerb": "b"}],
                    }
                ),
                "names bindVerb",
            ),
            "TLS": (
                yaml.safe_dump(
                    {
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "kind": "KubeSchedulerConfiguration",
                        "extenders": [{"urlPrefix": "https://x", "tlsConfig": {"caFile": "ca"}}],
                    }
                ),
                "names tlsConfig",
            ),
        },
    )
    def test_what_cannot_be_obeyed_is_refused(self, text: str, why: str) -> None:
        with pytest.raises(BadConfiguration, match=why):
            read_configuration(text)


def configuration(**fields: Any) -> str:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**kind, **fields})
