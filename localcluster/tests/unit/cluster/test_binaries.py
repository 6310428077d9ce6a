"""Which programs are built, under which key they are kept, and where each one is taken from."""

import re
from pathlib import Path

import pytest

from localcluster.binaries.locate import KUBERNETES_VARIABLE, Binaries, resolve
from localcluster.binaries.modules import (
    CONTROL_PLANES,
    DEFAULT_KUBERNETES,
    DEFAULT_OPERATOR,
    JOBSET,
    KUBERNETES,
    OPERATORS,
    TRAINERS,
    TRAINING_OPERATOR,
    GoModule,
)
from localcluster.binaries.toolchain import parse_go_version
from localcluster.errors import BuildError
from localcluster.progress import PlainProgress, Progress
from tests.cases import cases

ALL = (*CONTROL_PLANES.values(), *OPERATORS.values(), *TRAINERS.values(), JOBSET)


class TestThePinnedModules:
    def test_the_versions_are_those_that_were_tried_together(self) -> None:
        assert KUBERNETES.version == "v1.36.3"
        for modules in (CONTROL_PLANES, OPERATORS, TRAINERS):
            assert {version: f"v{version}" for version in modules} == {
                version: module.version for version, module in modules.items()
            }
        assert CONTROL_PLANES[DEFAULT_KUBERNETES] is KUBERNETES
        assert OPERATORS[DEFAULT_OPERATOR] is TRAINING_OPERATOR
        assert " go.etcd.io/etcd/server/v3 v3.6.8" in (
            KUBERNETES.folder / "go.mod"
        ).read_text().replace("\t", " ")

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


@cases(
    ("text", "version"),
    {
        "a release": ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        "without a patch number": ("go version go1.27 linux/arm64", (1, 27)),
        "a candidate": ("go version go1.27rc1 linux/amd64", (1, 27)),
        "another program of that name": ("gopher 12", None),
    },
)
def test_the_version_that_go_prints(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_go_version(text) == version


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

    def test_a_release_that_is_not_pinned_is_refused_with_those_that_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(KUBERNETES_VARIABLE, "1.2")
        with pytest.raises(BuildError, match=r"no Kubernetes 1\.2 here; .*1\.36\.3, 1\.37\.2"):
            find(tmp_path, FakeBuild())
