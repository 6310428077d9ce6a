"""The volumes of a pod as folders of this machine, and the folders that stand for a container's
mount paths.

An emptyDir is a folder of the pod; a hostPath, and a claim bound to a hostPath volume, is that very
path; config maps, secrets, tokens and the downward API are files written here and written again
when they change."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localcluster.node.content import ContentSource, volume_files, write_files
from localcluster.node.environment import ObjectSource, Unresolved
from localcluster.node.expansion import expand
from localcluster.node.rewriting import Rewriting
from localcluster.node.spec import Json

CONTENT_TYPES = ("configMap", "secret", "projected", "downwardAPI")
SUPPORTED_TYPES = ("emptyDir", "hostPath", "persistentVolumeClaim", *CONTENT_TYPES)


class Claims(Protocol):
    """Where the volume behind a claim is found."""

    def volume_of_claim(self, namespace: str, name: str) -> Json:
        """Return the PersistentVolume that a claim is bound to. Raises Unresolved while it is
        not."""
        ...


@dataclass(frozen=True)
class VolumeContext:
    """What volumes are made from."""

    claims: Claims
    content: ContentSource
    ports: Mapping[int, int]


def volume_type(volume: Json) -> str:
    """Return the key that says what a volume of a pod is ("emptyDir" when it says nothing)."""
    return next((key for key in volume if key != "name"), "emptyDir")


class PodVolumes:
    """The volumes of one pod under one folder. `refresh` may run on another thread than the
    rest."""

    def __init__(self, pod_dir: Path, context: VolumeContext) -> None:
        """Keep the pod's own volumes under `pod_dir`."""
        self._dir = pod_dir / "volumes"
        self._context = context
        self._places: dict[str, Path] = {}
        self._mutex = threading.Lock()
        self._open = True

    def prepare(self, pod: Json) -> None:
        """Make all volumes. Raises Unresolved with a sentence when something they refer to is not
        there."""
        volumes = pod["spec"].get("volumes") or ()
        with self._mutex:
            self._places = {each["name"]: self._place(pod, each) for each in volumes}
            self._write_contents(pod, self._context.content)

    def refresh(self, pod: Json, source: ObjectSource) -> None:
        """Write again what has changed since, with config maps and secrets read from `source`."""
        with self._mutex:
            if self._open and self._places:
                self._write_contents(pod, self._context.content.reading(source))

    def close(self) -> None:
        """Write nothing any more: the pod's folder is about to be removed."""
        with self._mutex:
            self._open = False

    def folders(self, container: Json, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the local folder (or file) of each mount path of a container; missing subPaths are
        made."""
        return {
            mount["mountPath"]: str(self._mounted(mount, variables))
            for mount in container.get("volumeMounts") or ()
            if mount["name"] in self._places
        }

    def _mounted(self, mount: Json, variables: Mapping[str, str]) -> Path:
        place = self._places[mount["name"]]
        inside = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
        if not inside:
            return place
        target = place / inside
        if ".." in Path(inside).parts or Path(inside).is_absolute():
            raise Unresolved(f'subPath "{inside}" leads out of volume "{mount["name"]}"')
        if not target.exists():
            target.mkdir(parents=True)
        return target

    def _place(self, pod: Json, volume: Json) -> Path:
        kind = volume_type(volume)
        if kind == "hostPath":
            return _host_path(volume["hostPath"])
        if kind == "persistentVolumeClaim":
            claim = volume["persistentVolumeClaim"]["claimName"]
            return _claimed(
                self._context.claims.volume_of_claim(pod["metadata"]["namespace"], claim)
            )
        place = self._dir / str(volume["name"])
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _write_contents(self, pod: Json, content: ContentSource) -> None:
        rewriting = self._rewriting(pod)
        for volume in pod["spec"].get("volumes") or ():
            if volume_type(volume) in CONTENT_TYPES:
                place = self._places[volume["name"]]
                write_files(place, volume_files(volume, pod, content, place, rewriting))

    def _rewriting(self, pod: Json) -> Rewriting:
        """Rewrite files by all mounts of the pod: a file does not know which container reads it."""
        folders: dict[str, str] = {}
        for container in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
            for mount in container.get("volumeMounts") or ():
                if mount["name"] in self._places and not mount.get("subPathExpr"):
                    place = self._places[mount["name"]] / (mount.get("subPath") or "")
                    folders.setdefault(mount["mountPath"], str(place))
        return Rewriting(folders, self._context.ports)


def _host_path(source: Json) -> Path:
    path, kind = Path(str(source["path"])), source.get("type") or ""
    if kind in {"", "DirectoryOrCreate"} and not path.exists():
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(exist_ok=True)
    right = {"Directory": path.is_dir, "DirectoryOrCreate": path.is_dir, "File": path.is_file}.get(
        kind, path.exists
    )
    if not right():
        raise Unresolved(
            f"hostPath type check failed: {path} is not what type {kind or 'any'} asks for"
        )
    return path


def _claimed(volume: Json) -> Path:
    spec = volume["spec"]
    if "hostPath" in spec:
        return _host_path({"type": "DirectoryOrCreate", **spec["hostPath"]})
    if "local" in spec:
        return _host_path({"path": spec["local"]["path"]})
    raise Unresolved(
        f'persistentvolume "{volume["metadata"]["name"]}" is neither hostPath nor local: '
        "process nodes can use no other kind"
    )
