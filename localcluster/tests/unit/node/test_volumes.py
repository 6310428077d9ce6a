"""A pod's volumes: made once, refreshed from then on until the pod goes."""

import base64
from pathlib import Path

import pytest

from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.pod_spec import Unresolved
from localcluster.node.volumes import PodVolumes
from tests.unit.node.fake_api import FakeApi
from tests.unit.node.pods import pod

SETTINGS = "/api/v1/namespaces/ns/configmaps/settings"
CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/c"
VOLUME = "/api/v1/persistentvolumes/v"
POD = pod(
    volumes=[
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]
)


def pod_volumes(folder: Path, api: FakeApi) -> PodVolumes:
    return PodVolumes(folder / "pod", ClusterObjects(api), ("https://s", ""), {})


def bind_claim(api: FakeApi, folder: Path) -> None:
    api.objects[CLAIM] = {"spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}
    api.objects[VOLUME] = {"metadata": {"name": "v"}, "spec": {"hostPath": {"path": str(folder)}}}


def test_volumes_that_could_not_be_made_yet_are_not_refreshed(tmp_path: Path) -> None:
    api = FakeApi({SETTINGS: {"data": {"X": "1"}}})
    volumes = pod_volumes(tmp_path, api)
    with pytest.raises(Unresolved, match='"c" not found'):
        volumes.prepare(POD)
    volumes.refresh(POD)
    bind_claim(api, tmp_path / "data")
    volumes.prepare(POD)
    assert (tmp_path / "pod" / "volumes" / "settings" / "X").read_text() == "1"


def test_a_changed_config_map_is_written_again_until_the_volumes_are_closed(tmp_path: Path) -> None:
    api = FakeApi({SETTINGS: {"data": {"X": "1"}}})
    bind_claim(api, tmp_path / "data")
    volumes = pod_volumes(tmp_path, api)
    volumes.prepare(POD)
    written = tmp_path / "pod" / "volumes" / "settings" / "X"
    api.objects[SETTINGS] = {"data": {"X": "2"}}
    volumes.refresh(POD)
    assert written.read_text() == "2"
    volumes.close()
    api.objects[SETTINGS] = {"data": {"X": "3"}}
    volumes.refresh(POD)
    assert written.read_text() == "2"


SECRET = "/api/v1/namespaces/ns/secrets/s"


def secret_volume(**source: object) -> dict[str, object]:
    return pod(volumes=[{"name": "v", "secret": {"secretName": "s", **source}}])


def test_a_secret_is_decoded_and_an_optional_one_may_come_later(tmp_path: Path) -> None:
    api = FakeApi()
    volumes, with_secret = pod_volumes(tmp_path, api), secret_volume(optional=True)
    volumes.prepare(with_secret)
    folder = tmp_path / "pod" / "volumes" / "v"
    assert list(folder.iterdir()) == []
    api.objects[SECRET] = {"data": {"tls.key": base64.b64encode(b"key").decode()}}
    volumes.refresh(with_secret)
    assert (folder / "tls.key").read_text() == "key"
