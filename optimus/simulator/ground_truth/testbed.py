"""The 13 servers of the paper ([O] section 6.1) and the speed of their containers.

[O] table 2 gives the fitted terms of ResNet-50 (25 M parameters, 100 MB) on this testbed; other
models scale with their bytes and their arithmetic.
Workers compute on CPUs. [O] figure 14 shows up to 60 tasks at a time, half of them workers where
the ratio is 1:1, and the testbed has 12 GPUs; table 2's 1.02 s for one image is a few cores' work
and a hundred times a GPU's."""

from dataclasses import dataclass
from typing import Final

from optimus.jobs import TrainingMode
from optimus.nodes import Node
from optimus.resources import Resources

GIB: Final = 1 << 30
GPU: Final = "nvidia.com/gpu"


def nodes(machines: int = 1) -> tuple[Node, ...]:
    """The servers, ``machines`` times over."""
    cpu = Resources({"cpu": 16_000, "memory": 80 * GIB, "pods": 110})
    gpu = Resources({"cpu": 8_000, "memory": 48 * GIB, "pods": 110, GPU: 2})
    plain = [Node(f"cpu-{at:03}", cpu) for at in range(7 * machines)]
    return (*plain, *(Node(f"gpu-{at:03}", gpu) for at in range(6 * machines)))


@dataclass(frozen=True, slots=True)
class ModeCost:
    """What tasks cost beside arithmetic, in one training mode."""

    ps_mb_per_second: float
    """Throughput of one PS over the network, in 10^6 bytes a second."""
    ps_seconds_per_mb: float
    """A PS's own work on one worker's gradients: seconds for each MB that it holds."""
    worker_seconds_per_mb: float
    """A worker's work once a step, whatever the number of examples, for each MB of the model."""
    seconds_per_ps: float
    """Added to every step for each PS."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Speeds of the testbed's containers. Within a server nothing takes the network."""

    mb_per_second: float
    """Throughput of one worker in each direction, in 10^6 bytes a second."""
    gflop_per_second: float
    """Arithmetic of one worker, in 10^9 operations a second."""
    sync: ModeCost
    async_: ModeCost
    jitter: float
    """Relative standard deviation of one worker's time for one step."""

    def cost(self, mode: TrainingMode) -> ModeCost:
        """The costs of a training mode."""
        return self.sync if mode is TrainingMode.SYNC else self.async_


_RESNET_MB: Final = 100.0
_IMAGE_SECONDS: Final = 1.02
_LINE_MB_PER_SECOND: Final = 125.0 * 1460 / 1538
"""1 Gbit/s less what Ethernet, IP and TCP add to 1460 bytes of payload."""
_SYNC_SECONDS: Final = 4.92
_ASYNC_SECONDS: Final = 3.92
_LINE_SECONDS: Final = 2 * _RESNET_MB / _LINE_MB_PER_SECOND
"""The model there and back over one link."""


def paper_hardware(network: float = 0.5) -> Hardware:
    """The testbed after [O] table 2 (ResNet-50). It gives these terms back wherever PSs, not
    workers' links, bind.

    Sync: 1.02 s for each image, 2.78 s whatever p and w, 4.92 s for each worker of one PS, 0.02 s
    for each PS. (With the batch of 32 in the authors' job files these make 7 workers the best of 20
    containers; figure 4 has 8.) Async: 2.83 s of a step are a worker's own, of which two images
    take 2.04 s; 3.92 s and 0.11 s.

    What is not known is how much of the time for each worker of one PS the network takes. The link
    alone takes 1.7 s at line rate (``network`` 0: the rest is the PS's own work); in real MXNet's
    speeds recorded over links of 200 Mbit/s nothing is left for the PS (1: all is the network's,
    many senders sharing one port). The default is the middle."""
    sync, async_ = (
        (1 - network) * (seconds - _LINE_SECONDS) for seconds in (_SYNC_SECONDS, _ASYNC_SECONDS)
    )
    of_sync, of_async = _cost(_SYNC_SECONDS - sync, sync), _cost(_ASYNC_SECONDS - async_, async_)
    return Hardware(
        mb_per_second=_LINE_MB_PER_SECOND,
        # 4.1 * 10^9 multiply-adds for an image, two operations each, times 3 for the backward pass.
        gflop_per_second=24.6 / _IMAGE_SECONDS,
        sync=ModeCost(*of_sync, 2.78 / _RESNET_MB, 0.02),
        async_=ModeCost(*of_async, (2.83 - 2 * _IMAGE_SECONDS) / _RESNET_MB, 0.11),
        # The median, over 100 jobs of Alibaba's mini-batch times, of the variation between a job's
        # workers.
        jitter=0.087,
    )


def _cost(wire_seconds: float, own_seconds: float) -> tuple[float, float]:
    """A PS's bandwidth and own time, from the seconds that each takes for one worker."""
    return 2 * _RESNET_MB / wire_seconds, own_seconds / _RESNET_MB


TESTBED: Final = paper_hardware()

START_SECONDS: Final = 15.0
"""From a placement to the first step. [O] section 6.2: scaling takes 2.54 % of the makespan of
14,835 s, 377 s; that is 15 s for each of its 25 intervals."""

SPEED_NOISE: Final = 0.05
"""Of a measured speed. Real MXNet training measured again and again spreads by 2.6 to 7.5 %."""

LOSS_NOISE: Final = 0.01
"""Of an epoch's mean training loss. Four real curves spread by 0.1 to 4 % about their course, half
of them by 1 %."""


def rescale_seconds(model_mb: float) -> float:
    """A start, and the model with its momentum to the file system and back over the wire."""
    return START_SECONDS + 2 * 2 * model_mb / TESTBED.mb_per_second
