"""What the demo serves, and where it says that metrics are."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from kubernetes import client as api

from examples.demo.__main__ import wait_for_line
from examples.demo.serving import ProfilePage, listing, metrics_addresses, page_address
from localcluster.errors import ClusterError

_TABLE: Mapping[str, Any] = {
    "columnDefinitions": [
        {"name": "Name", "priority": 0},
        {"name": "Checkpoint", "priority": 1},
        {"name": "PS", "priority": 0},
        {"name": "Reason", "priority": 0},
    ],
    "rows": [{"cells": ["light-tf", 40, 3, "no room"]}, {"cells": ["x", None, None, "waits"]}],
}
_LISTING = "NAME       PS   REASON\nlight-tf   3    no room\nx               waits\n"


def _pod(name: str, ports: str | None, leaving: bool = False) -> api.V1Pod:
    annotations = None if ports is None else {"localcluster/ports": ports}
    labels = {"app.kubernetes.io/name": name}
    deleted_at = datetime(2026, 1, 1, tzinfo=UTC) if leaving else None
    return api.V1Pod(
        metadata=api.V1ObjectMeta(
            labels=labels, annotations=annotations, deletion_timestamp=deleted_at
        )
    )


def test_the_listing_is_what_kubectl_prints() -> None:
    assert listing(_TABLE) == _LISTING


def test_a_listing_without_rows_has_its_headings() -> None:
    assert listing({**_TABLE, "rows": []}) == "NAME   PS   REASON\n"


def test_the_page_reads_again_each_time() -> None:
    tables = iter([{**_TABLE, "rows": []}, _TABLE])
    with ProfilePage(lambda: next(tables)) as page:
        texts = [urlopen(page.address, timeout=60).read().decode() for _ in range(2)]
    assert texts == ["NAME   PS   REASON\n", _LISTING]


def test_a_server_that_does_not_answer_is_a_sentence_and_not_the_end() -> None:
    def ask() -> Mapping[str, Any]:
        raise api.ApiException(status=500, reason="etcd is away")

    with ProfilePage(ask) as page:
        for _ in range(2):
            with pytest.raises(HTTPError) as caught:
                urlopen(page.address, timeout=60)
            with caught.value as answer:
                assert answer.code == 503
                assert "etcd is away" in answer.read().decode()


def test_metrics_are_where_the_pods_say() -> None:
    pods = [
        _pod("something-else", '{"8080": 1}'),
        _pod("optimus-autoscaler", '{"8080": 2}', leaving=True),
        _pod("optimus-autoscaler", '{"8080": 3}'),
        _pod("optimus-scheduler", '{"8888": 4, "8889": 5}'),
    ]
    assert metrics_addresses(pods) == {
        "autoscaler": "http://127.0.0.1:3/metrics",
        "extender": "http://127.0.0.1:5/metrics",
    }


def test_the_page_is_where_the_autoscalers_pod_says() -> None:
    pods = [_pod("optimus-scheduler", '{"8090": 1}'), _pod("optimus-autoscaler", '{"8090": 7}')]
    assert page_address(pods) == "http://127.0.0.1:7/"
    with pytest.raises(ClusterError, match="page"):
        page_address(pods[:1])


def test_the_demo_waits_for_a_line_and_not_for_ever() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stream:
        assert not wait_for_line(stream, 0.01)
        os.write(write, b"\n")
        assert wait_for_line(stream, 60.0)
        os.close(write)
        assert not wait_for_line(stream, 60.0), "its end is no line"


def test_a_pod_without_a_port_is_named() -> None:
    pods = [_pod("optimus-autoscaler", '{"8080": 3}'), _pod("optimus-scheduler", None)]
    with pytest.raises(ClusterError, match="optimus-scheduler"):
        metrics_addresses(pods)
