"""Renders the kustomizations of this project, for a machine without kubectl.

Known are `resources`, `components`, `patches` (JSON and strategic, also `$patch: delete`; the kind
and name of a `target` are regular expressions, and it may match nothing), `replacements` of a field
by that of another object, `images`, and `configMapGenerator` with `files`, `literals` and `options`
(labels, no hash), which creates, merges or replaces; anything else is refused by name. The name of
a generated ConfigMap ends in the hash of its content that kustomize gives it, so pods that mount it
are recreated when it changes."""

import copy
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.patches import json_patch, strategic_merge
from localcluster.errors import ClusterError
from localcluster.storage import read_yaml

_FILE: Final = "kustomization.yaml"
_KNOWN: Final = {
    *("apiVersion", "kind", "resources", "components", "patches", "images", "configMapGenerator"),
    "replacements",
}
_OF_GENERATORS: Final = {"name", "namespace", "behavior", "files", "literals", "options"}
_OPTIONS: Final = {"disableNameSuffixHash", "labels"}
_BEHAVIORS: Final = ("create", "merge", "replace")
_FIRST: Final = (
    *("Namespace", "CustomResourceDefinition", "ServiceAccount", "ConfigMap", "PersistentVolume"),
)
_ESCAPED: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_LETTERS: Final = str.maketrans("013ae", "ghkmt")
"""How kustomize writes JSON and a hash: names are then those that kubectl gives."""
_REFERENCES: Final = frozenset({"configMap", "configMapRef", "configMapKeyRef"})


@dataclass(frozen=True)
class Item:
    """An object, and whether its name still gets a hash."""

    body: Json
    generated: bool = False

    @property
    def place(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        metadata = self.body["metadata"]
        return self.body["kind"], metadata.get("namespace", ""), metadata["name"]


def render(path: Path) -> list[Json]:
    """Return the objects of a file, a folder or a kustomization, in an order fit to be applied.

    Raises ClusterError where a file is missing or has a field that is not known."""
    items = list(_read(path))
    names = {item.place[2]: _hashed(item.body) for item in items if item.generated}

    def rank(body: Json) -> int:
        return _FIRST.index(body["kind"]) if body["kind"] in _FIRST else len(_FIRST)

    return sorted((_renamed(item, names) for item in items), key=rank)


def _read(path: Path) -> Iterator[Item]:
    if path.is_dir() and (path / _FILE).exists():
        yield from _kustomized(path)
    elif path.is_dir():
        for file in sorted([*path.glob("*.yaml"), *path.glob("*.yml")]):
            yield from map(Item, read_yaml(file))
    else:
        yield from map(Item, read_yaml(path))


def _kustomized(folder: Path, given: Sequence[Item] = ()) -> list[Item]:
    """The objects of a kustomization; of a component, with those that it is applied to."""
    content = yaml.safe_load((folder / _FILE).read_text())
    generators = content.get("configMapGenerator") or ()
    unknown = {*content} - _KNOWN | {key for each in generators for key in each} - _OF_GENERATORS
    unknown |= {key for each in generators for key in each.get("options") or ()} - _OPTIONS
    if unknown:
        fields = ", ".join(sorted(unknown))
        raise ClusterError(f"{folder / _FILE} has {fields}, which is not known here; use kubectl")
    resources = content.get("resources") or ()
    items = [*given, *(item for name in resources for item in _read((folder / name).resolve()))]
    for generator in generators:
        items = _generated(items, generator, folder)
    for name in content.get("components") or ():
        items = _kustomized((folder / name).resolve(), items)
    for patch in content.get("patches") or ():
        items = _patched(items, patch, folder)
    for image in content.get("images") or ():
        items = [replace(item, body=_with_image(item.body, image)) for item in items]
    for each in content.get("replacements") or ():
        items = _replaced(items, each, folder)
    return items


def _generated(items: list[Item], generator: Json, folder: Path) -> list[Item]:
    metadata: Json = {key: generator[key] for key in ("name", "namespace") if key in generator}
    options = generator.get("options") or {}
    if "labels" in options:
        metadata["labels"] = options["labels"]
    files = [folder / name for name in generator.get("files") or ()]
    data = {path.name: path.read_text() for path in files}
    data |= dict(map(_literal, generator.get("literals") or ()))
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    made = Item(body, generated=not options.get("disableNameSuffixHash"))
    behavior = generator.get("behavior", "create")
    if behavior == "create":
        return [*items, made]
    before = next((item for item in items if item.place == made.place), None)
    if before is None or behavior not in _BEHAVIORS:
        name = metadata["name"]
        raise ClusterError(f"there is no ConfigMap {name} to {behavior} in {folder / _FILE}")
    if behavior == "merge":
        made = replace(made, body={**before.body, "data": {**before.body["data"], **data}})
    return [made if item is before else item for item in items]


def _literal(text: str) -> tuple[str, str]:
    """Return the key and value of KEY=VALUE; quotes around the whole value are not part of it."""
    key, _, value = text.partition("=")
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return key, value[1:-1] if quoted else value


def _patched(items: list[Item], patch: Json, folder: Path) -> list[Item]:
    text = patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text()
    change = yaml.safe_load(text)
    named = {"kind": change["kind"], **change["metadata"]} if isinstance(change, dict) else {}
    target = patch.get("target") or {key: re.escape(each) for key, each in named.items()}
    if "target" not in patch and not any(_is_target(item, target) for item in items):
        raise ClusterError(f"a patch in {folder / _FILE} is for {target}, which is not there")
    if isinstance(change, dict) and change.get("$patch") == "delete":
        return [item for item in items if not _is_target(item, target)]
    merge: Callable[[Any, Any], Any] = json_patch if isinstance(change, list) else strategic_merge
    try:
        return [
            replace(item, body=merge(item.body, change)) if _is_target(item, target) else item
            for item in items
        ]
    except StatusError as error:
        why = f"cannot be applied to {target}: {error}"
        raise ClusterError(f"a patch in {folder / _FILE} {why}") from error


def _is_target(item: Item, target: Mapping[str, Any]) -> bool:
    kind, namespace, name = item.place
    found = {"kind": kind, "name": name, "namespace": namespace}
    return all(re.fullmatch(target[key], found[key]) for key in found if target.get(key))


def _replaced(items: list[Item], replacement: Json, folder: Path) -> list[Item]:
    """Copy a field of one object to fields of others, as the patches here have left it."""
    source = replacement["source"]
    sources = [item for item in items if _is_target(item, source)]
    if len(sources) != 1:
        raise ClusterError(f"a replacement in {folder / _FILE} has {len(sources)} sources, not one")
    value = _field(sources[0].body, source["fieldPath"], folder)
    for target in replacement["targets"]:
        items = [
            replace(item, body=_with_fields(item.body, target["fieldPaths"], value, folder))
            if _is_target(item, target["select"])
            else item
            for item in items
        ]
    return items


def _with_fields(body: Json, paths: Sequence[str], value: Any, folder: Path) -> Json:
    body = copy.deepcopy(body)
    for path in paths:
        _field(body, path, folder)  # it has to be there
        parent, _, last = path.rpartition(".")
        _field(body, parent, folder)[last] = copy.deepcopy(value)
    return body


def _field(value: Any, path: str, folder: Path) -> Any:
    """The field at a path such as `spec.variables.[name=scheduler].expression`."""
    for part in path.split("."):
        try:
            if part.startswith("["):
                key, _, text = part[1:-1].partition("=")
                (value,) = [each for each in value if each[key] == text]
            else:
                value = value[part]
        except (KeyError, ValueError, TypeError) as error:
            raise ClusterError(f"{folder / _FILE}: there is no field {path}") from error
    return value


def _with_image(value: Any, image: Json) -> Any:
    """Return a value in which every `image:` of this name has its new name and tag."""
    if isinstance(value, list):
        return [_with_image(each, image) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _with_image(each, image) for key, each in value.items()}
    given = value.get("image")
    if isinstance(given, str):
        has_tag = "/" not in given.rpartition(":")[2]
        name, _, tag = given.partition(":") if has_tag else (given, "", "")
        if name == image["name"]:
            tag = str(image.get("newTag") or tag)
            changed["image"] = f"{image.get('newName') or name}{':' if tag else ''}{tag}"
    return changed


def _hashed(body: Json) -> str:
    content = {"data": body["data"], "kind": "ConfigMap", "name": ""}
    text = msgspec.json.encode(content, order="deterministic").decode().translate(_ESCAPED)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{body['metadata']['name']}-{digest.translate(_LETTERS)}"


def _renamed(item: Item, names: Mapping[str, str]) -> Json:
    body: Json = _with_references(item.body, names)
    if not item.generated:
        return body
    return {**body, "metadata": {**body["metadata"], "name": names[item.place[2]]}}


def _with_references(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value in which every reference to a generated ConfigMap has its whole name."""
    if isinstance(value, list):
        return [_with_references(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {key: _with_references(each, names) for key, each in value.items()}
    for key in _REFERENCES & changed.keys():
        reference = changed[key]
        if isinstance(reference, dict) and reference.get("name") in names:
            changed[key] = {**reference, "name": names[reference["name"]]}
    return changed
