"""A mount path may lie above folders of this machine, such as /tmp: the machine's own names stay
what they are."""

from pathlib import Path
from typing import Any

from localcluster.node.process_table import POD_VARIABLE
from tests.integration.node.machine import NodeHarness
from tests.unit.node.pods import container, pod


def test_mounts_above_machine_folders_do_not_change_the_containers_own_paths(
    node_harness: NodeHarness,
) -> None:
    # As when the checkout or the agent's folder lies in /tmp.
    above = f"/{node_harness.folder.parts[1]}"
    mount: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": above}]}
    own = {"name": "OWN", "value": f"{above}/mine"}
    script = container(command=["sh", "-c", "env; echo done"], env=[own], **mount)
    log = node_harness.run(
        pod(script, restartPolicy="Never", volumes=[{"name": "v", "emptyDir": {}}])
    ).wait_log("done")
    variables = dict(
        line.split(" ", 3)[3].partition("=")[::2] for line in log.splitlines() if "=" in line
    )
    assert variables[POD_VARIABLE].startswith(f"{node_harness.folder}/")
    assert "volumes" not in variables[POD_VARIABLE]
    assert Path(variables["HOME"]).is_dir()
    assert variables["OWN"].endswith("/volumes/v/mine")
