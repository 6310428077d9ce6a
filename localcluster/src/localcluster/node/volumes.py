"""A pod's volumes as folders of this machine, and the folder behind each mount path.

An emptyDir is a folder of the pod; a hostPath, and a claim bound to a hostPath volume, is that very
folder, made where it is not there; config maps, fields of the pod and projected volumes are files
written here, and again when they change."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from localcluster.kubeconfig import kubeconfig_body
from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.pod_spec import Json, Unresolved, containers_of, field_value
from localcluster.node.rewriting import Rewriting
from localcluster.storage import replace_file

Files = dict[str, str]
"""Texts by path within a volume; only the user of this machine may read them."""


class PodVolumes:
    """The volumes of one pod. `refresh` may run on another thread than the rest."""

    def __init__(
        self,
        pod_dir: Path,
        objects: ClusterObjects,
        server: tuple[str, str],
        ports: Mapping[int, int],
    ) -> None:
        """Keep them under `pod_dir`; `ports` maps declared to local ports."""
        self._dir = pod_dir / "volumes"
        self._objects = objects
        self._server = server
        self._ports = ports
        self._folders: dict[str, Path] = {}
        self._mutex = threading.Lock()
        self._prepared = False
        self._closed = False

    def prepare(self, pod: Json) -> None:
        """Make all volumes. Raises Unresolved when something they refer to is not there."""
        with self._mutex:
            volumes = pod["spec"].get("volumes") or ()
            self._folders = {each["name"]: self._folder(pod, each) for each in volumes}
            self._write_files(pod)
            self._prepared = True

    def refresh(self, pod: Json) -> None:
        """Write again what has changed since, if they are made. Raises Unresolved."""
        with self._mutex:
            if self._prepared and not self._closed:
                self._write_files(pod)

    def close(self) -> None:
        """Write nothing any more: the pod's folder is about to be removed."""
        with self._mutex:
            self._closed = True

    def folders(self, container: Json) -> dict[str, str]:
        """Return the local folder or file of each mount path of a container."""
        return {
            mount["mountPath"]: str(self._folders[mount["name"]])
            for mount in container.get("volumeMounts") or ()
            if mount["name"] in self._folders
        }

    def _folder(self, pod: Json, volume: Json) -> Path:
        source = volume
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            bound = self._objects.volume_of_claim(pod["metadata"]["namespace"], claim)
            if "hostPath" not in bound["spec"]:
                name = bound["metadata"]["name"]
                raise Unresolved(
                    f'persistentvolume "{name}" is no hostPath: the only supported kind'
                )
            source = bound["spec"]
        folder = self._dir / str(volume["name"])
        if "hostPath" in source:
            folder = Path(source["hostPath"]["path"])
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _write_files(self, pod: Json) -> None:
        # By all mounts of the pod: a file does not know which container reads it.
        mounts = {
            path: folder
            for container in containers_of(pod)
            for path, folder in self.folders(container).items()
        }
        rewriting = Rewriting(mounts, self._ports)
        for volume in pod["spec"].get("volumes") or ():
            folder = self._folders[volume["name"]]
            if "configMap" in volume:
                _write(folder, self._config_map(volume["configMap"], pod, rewriting))
            elif "secret" in volume:
                _write(folder, self._secret(volume["secret"], pod))
            elif "projected" in volume:
                _write(folder, self._projected(volume["projected"], pod, folder, rewriting))
            elif "downwardAPI" in volume:
                _write(folder, _fields(volume["downwardAPI"], pod))

    def _projected(self, source: Json, pod: Json, folder: Path, rewriting: Rewriting) -> Files:
        files: Files = {}
        for part in source.get("sources") or ():
            if "configMap" in part:
                files.update(self._config_map(part["configMap"], pod, rewriting))
            elif "downwardAPI" in part:
                files.update(_fields(part["downwardAPI"], pod))
            elif "serviceAccountToken" in part:
                files.update(self._token(part["serviceAccountToken"], pod, folder))
            else:
                raise Unresolved(f"process nodes do not project {', '.join(part)}")
        return files

    def _token(self, projection: Json, pod: Json, folder: Path) -> Files:
        """Return the token, and a kubeconfig beside it: the fixed path does not exist here."""
        token = self._objects.token(pod, int(projection.get("expirationSeconds") or 3600))
        path = folder / projection["path"]
        server, ca_pem = self._server
        user = {"tokenFile": str(path)}
        config = kubeconfig_body(server, ca_pem, user, pod["metadata"]["namespace"])
        beside = str(path.with_name("kubeconfig").relative_to(folder))
        return {
            projection["path"]: token,
            beside: json.dumps(config, indent=1),
        }

    def _config_map(self, reference: Json, pod: Json, rewriting: Rewriting) -> Files:
        namespace, name = pod["metadata"]["namespace"], reference.get("name") or ""
        values = self._objects.config_map(namespace, name)
        chosen = _chosen(values, reference, f'configmap "{name}"')
        return {path: rewriting.file(text) for path, text in chosen.items()}

    def _secret(self, source: Json, pod: Json) -> Files:
        namespace, name = pod["metadata"]["namespace"], source.get("secretName") or ""
        optional = bool(source.get("optional"))
        values = self._objects.secret(namespace, name, optional=optional)
        return _chosen(values, source, f'secret "{name}"') if values else {}


def _chosen(values: Mapping[str, str], source: Json, what: str) -> Files:
    """Return all texts, or those that a volume's items name, by path."""
    keys = [(each["key"], each["path"]) for each in source.get("items") or ()]
    missing = [key for key, _ in keys if key not in values]
    if missing:
        raise Unresolved(f"{what} has no key {', '.join(missing)}")
    return {path: values[key] for key, path in keys or [(key, key) for key in values]}


def _fields(source: Json, pod: Json) -> Files:
    """Return the fields of the pod that a downward API volume shows."""
    items = source.get("items") or ()
    return {item["path"]: field_value(pod, item["fieldRef"]["fieldPath"]) for item in items}


def _write(folder: Path, files: Files) -> None:
    """Make a folder hold exactly these files; each is replaced in one step, when it differs."""
    for name, text in files.items():
        target = folder / name
        if not target.is_relative_to(folder) or ".." in Path(name).parts:
            raise Unresolved(f'path "{name}" leads out of its volume')
        if not target.is_file() or target.read_bytes() != text.encode():
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, text.encode())
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in files:
            path.unlink()
