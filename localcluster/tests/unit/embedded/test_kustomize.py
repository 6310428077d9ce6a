"""Kustomizations render as kustomize renders them; unknown fields are refused by name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.embedded.kustomize import render
from localcluster.errors import ClusterError
from localcluster.paths import REPOSITORY
from tests.cases import cases

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d", "namespace": "n"},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"name": "c", "image": "app", "args": ["one"]}],
                "volumes": [{"name": "v", "configMap": {"name": "made"}}],
            }
        }
    },
}


def write(folder: Path, **files: Any) -> Path:
    """Write YAML files; `kustomization` gets that name, and text stays text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in files.items():
        text = body if isinstance(body, str) else yaml.safe_dump(body)
        (folder / f"{name}.yaml").write_text(text)
    return folder


def by_kind(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in objects}


def test_a_file_and_a_folder_are_their_documents(tmp_path: Path) -> None:
    write(tmp_path, both=f"{yaml.safe_dump(DEPLOYMENT)}---\n{yaml.safe_dump(CONFIG)}---\n")
    assert render(tmp_path / "both.yaml") == render(tmp_path) == [CONFIG, DEPLOYMENT]


def test_what_others_need_comes_first(tmp_path: Path) -> None:
    head = {"apiVersion": "v1", "metadata": {"name": "x"}}
    bodies = [DEPLOYMENT, CONFIG, {**head, "kind": "ServiceAccount"}, {**head, "kind": "Namespace"}]
    write(tmp_path, all="---\n".join(yaml.safe_dump(each) for each in bodies))
    kinds = [each["kind"] for each in render(tmp_path)]
    assert kinds == ["Namespace", "ServiceAccount", "ConfigMap", "Deployment"]


def test_a_component_adds_objects_and_changes_those_of_its_user(tmp_path: Path) -> None:
    base = {"resources": ["deployment.yaml"]}
    write(tmp_path / "base", deployment=DEPLOYMENT, kustomization=base)
    added = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "two"}]
    target = {"kind": "Deployment", "name": "d"}
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["config.yaml"],
        "patches": [{"target": target, "patch": yaml.safe_dump(added)}],
    }
    write(tmp_path / "part", config=CONFIG, kustomization=component)
    used = {"resources": ["../base"], "components": ["../part"]}
    write(tmp_path / "overlay", kustomization=used)
    found = by_kind(render(tmp_path / "overlay"))
    assert found.keys() == {"ConfigMap", "Deployment"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["one", "two"]


def test_layers_with_patches_images_and_a_replaced_config(tmp_path: Path) -> None:
    generated = {"name": "made", "namespace": "n", "files": ["settings.txt"]}
    write(
        tmp_path / "base",
        deployment=DEPLOYMENT,
        kustomization={
            "resources": ["deployment.yaml"],
            "configMapGenerator": [generated],
            "images": [{"name": "app", "newTag": 7}],
        },
    )
    (tmp_path / "base" / "settings.txt").write_text("base")
    added = yaml.safe_dump(
        [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "two"}]
    )
    merged = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 3}}
    top = write(
        tmp_path / "top",
        patch=merged,
        kustomization={
            "resources": ["../base"],
            "configMapGenerator": [{**generated, "behavior": "replace", "files": ["settings.txt"]}],
            "patches": [
                {"target": {"kind": "Deployment", "name": "d"}, "patch": added},
                {"path": "patch.yaml"},
            ],
        },
    )
    (top / "settings.txt").write_text("top")
    found = by_kind(render(top))
    config, spec = found["ConfigMap"], found["Deployment"]["spec"]
    assert config["data"] == {"settings.txt": "top"}
    assert config["metadata"]["name"].startswith("made-")
    assert spec["replicas"] == 3
    pod = spec["template"]["spec"]
    assert pod["containers"] == [{"name": "c", "image": "app:7", "args": ["one", "two"]}]
    assert pod["volumes"][0]["configMap"]["name"] == config["metadata"]["name"]
    (top / "settings.txt").write_text("changed")
    assert by_kind(render(top))["ConfigMap"]["metadata"]["name"] != config["metadata"]["name"]


@cases(
    ("kustomization", "sentence"),
    {
        "a field that is not known": (
            {"namePrefix": "x-"},
            "has namePrefix, which is not known here",
        ),
        "a field of a generator that is not known": (
            {"configMapGenerator": [{"name": "x", "envs": ["a.env"]}]},
            "has envs, which is not known here",
        ),
        "a file that is missing": ({"resources": ["none.yaml"]}, "cannot be read"),
        "a patch of an object that is not there": (
            {"patches": [{"patch": yaml.safe_dump(CONFIG)}]},
            "which is not there",
        ),
        "a replacement from nothing": (
            {"replacements": [{"source": {"kind": "Pod", "fieldPath": "a"}, "targets": []}]},
            "0 sources",
        ),
        "a replacement from a field that is not there": (
            {
                "resources": ["config.yaml"],
                "replacements": [
                    {"source": {"kind": "ConfigMap", "fieldPath": "data.none"}, "targets": []}
                ],
            },
            "no field data.none",
        ),
        "a patch that does not fit": (
            {
                "resources": ["config.yaml"],
                "patches": [
                    {
                        "target": {"kind": "ConfigMap"},
                        "patch": '[{"op": "remove", "path": "/none"}]',
                    }
                ],
            },
            "cannot be applied",
        ),
        "nothing to replace": (
            {"configMapGenerator": [{"name": "x", "behavior": "replace", "files": []}]},
            "no ConfigMap x to replace",
        ),
        "nothing to merge": (
            {"configMapGenerator": [{"name": "x", "behavior": "merge", "literals": []}]},
            "no ConfigMap x to merge",
        ),
    },
)
def test_what_cannot_be_rendered_is_an_error(
    tmp_path: Path, kustomization: dict[str, Any], sentence: str
) -> None:
    write(tmp_path, kustomization=kustomization, config=CONFIG)
    with pytest.raises(ClusterError, match=sentence):
        render(tmp_path)


@pytest.mark.parametrize("folder", ["manifests", "localcluster/overlay", "examples/demo/optimus"])
def test_the_shipped_manifests_are_known(folder: str) -> None:
    objects = render(REPOSITORY / folder)
    deployments = {
        each["metadata"]["name"]: each for each in objects if each["kind"] == "Deployment"
    }
    assert set(deployments) == {"optimus-autoscaler", "optimus-scheduler"}
    names = sorted(each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap")
    known = ["optimus-config-", "optimus-scheduler-config-", "optimus-settings-"]
    assert [each[:-10] for each in names] == known
    file, config, settings = names
    pod = deployments["optimus-scheduler"]["spec"]["template"]["spec"]
    assert [each["configMap"]["name"] for each in pod["volumes"][:2]] == [file, config]
    (source,) = pod["initContainers"][0]["envFrom"]
    assert source["configMapRef"]["name"] == settings
    assert [each["image"] for each in pod["initContainers"]] == ["optimus-on-kubernetes:0.1.0"]


@cases(
    ("text", "suffix"),
    {
        "letters": ("abc", "8g4hfht4gh"),
        "signs that Go escapes, and a letter that it keeps": ("a<b>é", "754kfbdbbf"),
        "a quotation mark": ('q"x', "mmm4262t5f"),
        "an ampersand": ("a&b", "hk94c2df65"),
    },
)
def test_generated_names_are_those_of_kubectl(tmp_path: Path, text: str, suffix: str) -> None:
    """The names that `kubectl kustomize` of Kubernetes 1.36.3 gave."""
    generator = {"name": "a", "literals": [f"X={text}"]}
    write(tmp_path, kustomization={"configMapGenerator": [generator]})
    (config,) = render(tmp_path)
    assert config["metadata"]["name"] == f"a-{suffix}"


def test_literals_are_merged_into_what_was_generated_before(tmp_path: Path) -> None:
    generator = {"name": "made", "namespace": "n"}
    base = {"configMapGenerator": [{**generator, "literals": ["A=1", "B=x=y", "C='quoted'"]}]}
    write(tmp_path / "base", kustomization=base)
    merged = {**generator, "behavior": "merge", "literals": ["A=", "D=4"]}
    top = {"resources": ["../base"], "configMapGenerator": [merged]}
    write(tmp_path / "top", kustomization=top)
    (config,) = render(tmp_path / "top")
    assert config["data"] == {"A": "", "B": "x=y", "C": "quoted", "D": "4"}


def test_a_component_changes_what_its_user_generates(tmp_path: Path) -> None:
    """As kubectl does it: generators come before components, patches after them."""
    component = {
        "kind": "Component",
        "configMapGenerator": [{"name": "made", "behavior": "merge", "literals": ["A=component"]}],
    }
    write(tmp_path / "part", kustomization=component)
    patch = [{"op": "add", "path": "/data/C", "value": "patched"}]
    used = {
        "components": ["../part"],
        "configMapGenerator": [{"name": "made", "literals": ["A=user", "B=user"]}],
        "patches": [{"target": {"kind": "ConfigMap"}, "patch": yaml.safe_dump(patch)}],
    }
    write(tmp_path / "overlay", kustomization=used)
    (made,) = render(tmp_path / "overlay")
    assert made["data"] == {"A": "component", "B": "user", "C": "patched"}


def test_a_patch_deletes_an_object(tmp_path: Path) -> None:
    gone = {"$patch": "delete", "kind": "ConfigMap", "metadata": {"name": "c"}}
    kustomization = {
        "resources": ["config.yaml", "deployment.yaml"],
        "patches": [{"patch": yaml.safe_dump(gone)}],
    }
    write(tmp_path, config=CONFIG, deployment=DEPLOYMENT, kustomization=kustomization)
    assert [each["kind"] for each in render(tmp_path)] == ["Deployment"]


def test_a_target_is_a_regular_expression_and_may_be_of_nothing(tmp_path: Path) -> None:
    gone = yaml.safe_dump({"$patch": "delete", "kind": "any", "metadata": {"name": "any"}})
    kustomization = {
        "resources": ["config.yaml", "deployment.yaml"],
        "patches": [
            {"target": {"kind": "Pod|ConfigMap", "name": "b|c"}, "patch": gone},
            {"target": {"kind": "Deploy", "name": "d"}, "patch": gone},
        ],
    }
    write(tmp_path, config=CONFIG, deployment=DEPLOYMENT, kustomization=kustomization)
    assert [each["kind"] for each in render(tmp_path)] == ["Deployment"]


def test_a_field_is_copied_from_another_object_after_the_patches(tmp_path: Path) -> None:
    patch = yaml.safe_dump([{"op": "replace", "path": "/data/a", "value": "2"}])
    target = {"select": {"kind": "Deployment"}}
    containers = "spec.template.spec.containers.[name=c]"
    kustomization = {
        "resources": ["config.yaml", "deployment.yaml"],
        "patches": [{"target": {"kind": "ConfigMap"}, "patch": patch}],
        "replacements": [
            {
                "source": {"kind": "ConfigMap", "name": "c", "fieldPath": "data.a"},
                "targets": [{**target, "fieldPaths": [f"{containers}.image"]}],
            },
            {
                "source": {"kind": "ConfigMap", "name": "c", "fieldPath": "data"},
                "targets": [{**target, "fieldPaths": [f"{containers}.args"]}],
            },
        ],
    }
    write(tmp_path, config=CONFIG, deployment=DEPLOYMENT, kustomization=kustomization)
    (container,) = by_kind(render(tmp_path))["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "c", "image": "2", "args": {"a": "2"}}


def test_a_generated_config_map_may_have_labels_and_a_name_without_hash(tmp_path: Path) -> None:
    options = {"disableNameSuffixHash": True, "labels": {"a": "b"}}
    generator = {"name": "made", "files": ["folder/kept.txt"], "options": options}
    write(tmp_path, kustomization={"configMapGenerator": [generator]})
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept.txt").write_text("text")
    (config,) = render(tmp_path)
    assert config["metadata"] == {"name": "made", "labels": {"a": "b"}}
    assert config["data"] == {"kept.txt": "text"}


def test_an_option_of_a_generator_that_is_not_known_is_refused(tmp_path: Path) -> None:
    generator = {"name": "x", "literals": ["a=b"], "options": {"immutable": True}}
    write(tmp_path, kustomization={"configMapGenerator": [generator]})
    with pytest.raises(ClusterError, match="has immutable, which is not known here"):
        render(tmp_path)
