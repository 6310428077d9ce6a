"""Which programs are built, under which key they are kept, and where each one is taken from."""

import re
from pathlib import Path

import pytest

from localcluster.binaries.locate import KUBERNETES_VARIABLE, Binaries, resolve
from localcluster.binaries.modules import (
    CONTROL_PLANES,
    DEFAULT_OPERATOR,
    KUBERNETES,
    GoModule,
)
from localcluster.progress import PlainProgress, Progress


class TestThePinnedModules:
    @pytest.mark.parametrize("module", CONTROL_PLANES.values(), ids=lambda module: module.name)
    def test_every_library_of_kubernetes_is_of_the_same_release(self, module: GoModule) -> None:
        text = (module.folder / "go.mod").read_text()
        replaced = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ (\S+)$", text, re.MULTILINE)
        assert len(replaced) > 25
        assert set(replaced) == {module.version.replace("v1.", "v0.")}

    def test_kubernetes_is_built_with_its_version_since_kubectl_refuses_an_unstamped_server(
        self,
    ) -> None:
        linker_flags = KUBERNETES.build_flags()[-1]
        assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in linker_flags
        assert "gitMinor=36" in linker_flags


class FakeBuild:
    """Notes which modules it was asked for."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def __call__(self, module: GoModule, cache: Path, progress: Progress) -> Path:
        self.built.append(module.name)
        return cache / module.name


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KUBERNETES_VARIABLE, raising=False)


def find(tmp_path: Path, build: FakeBuild, operator: str = DEFAULT_OPERATOR) -> Binaries:
    return resolve(PlainProgress(), cache=tmp_path / "cache", build=build, operator=operator)


class TestWhereProgramsComeFrom:
    def test_the_environment_may_name_another_release_of_kubernetes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(KUBERNETES_VARIABLE, "1.37.2")
        found = find(tmp_path, FakeBuild())
        assert found["kube-apiserver"].parent == tmp_path / "cache" / "kubernetes-1.37"
