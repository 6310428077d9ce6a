"""The processor time of one binding, by libcurl and by the API client's library:
``python -m benchmarks.binding_client``.

A server of the loopback by TLS, in a process of its own, answers each request at once. Only the
processor time of the client counts. The result is one JSON object, in milliseconds."""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import trustme

from extender.bindings import PodBinder
from localcluster.tls_server import TlsServer
from optimus.kube.client import connect
from optimus.kube.pods import decode_pod

_POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": []}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(b'HTTP/1.1 201 Created\r\nContent-Length: 20\r\n\r\n{"status":"Success"}')


def _serve(folder: Path, ready: Connection) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca")
    ready.send(TlsServer(("127.0.0.1", 0), _Handler, authority).server_port)
    ready.recv()


def _kubeconfig(folder: Path, port: int) -> Path:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca"}
    named = {"context": {"cluster": "c", "user": "c"}, "cluster": cluster, "user": {"token": "t"}}
    entries = {f"{kind}s": [{"name": "c", kind: each}] for kind, each in named.items()}
    (folder / "kubeconfig").write_text(json.dumps({"current-context": "c"} | entries))
    return folder / "kubeconfig"


def _milliseconds(bind: Callable[[], object], calls: int) -> float:
    rounds = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(calls):
            bind()
        rounds.append((time.process_time() - began) / calls * 1000)
    return round(statistics.median(rounds), 3)


def main() -> None:
    """Measure both and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500, help="a round; the median of five")
    calls = parser.parse_args().calls
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        server = multiprocessing.Process(target=_serve, args=(Path(folder), theirs), daemon=True)
        server.start()
        client = connect(_kubeconfig(Path(folder), ours.recv()), user_agent="benchmark")
        pod, binder = decode_pod(json.dumps(_POD).encode()), PodBinder(client, 15.0)
        path, body = "/api/v1/namespaces/ns/pods/p/binding", msgspec.json.encode(_POD)
        curl = _milliseconds(lambda: binder.bind([(pod, "n1")] * 20), calls // 20) / 20
        library = _milliseconds(lambda: client.post("bind", path, body), calls)
        client.close()
    ours.send("done")
    server.join()
    print(json.dumps({"libcurl": curl, "library": library, "ratio": round(library / curl, 2)}))


if __name__ == "__main__":
    main()
