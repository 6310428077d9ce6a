"""Count on MXNet's servers how often each example is trained.

`python mxnet_shards.py FOLDER STEPS KEPT`, the role is DMLC_ROLE. The data are RecordIO parts in
FOLDER. The gradient of a step has a one for each of its examples and the servers add it, so that
the parameters are the counts: what no checkpoint holds is not in them. Worker 0 saves after KEPT
steps; after STEPS all are gone, as if they were killed."""

import json
import os
import struct
import sys
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]  # a server never gets past it
import numpy as np

from optimus_trainer.shards import Deal

BATCH = 12


def main() -> None:
    """Go on from the checkpoint, where there is one."""
    folder, steps, kept = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    checkpoint = folder / "counts.params"
    records = {
        path.stem: mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "r")
        for path in sorted(folder.glob("*.rec"))
    }
    chunks = {name: len(record.keys) for name, record in records.items()}
    kvstore = mx.kv.create("dist_sync")
    counts, saved = mx.nd.zeros((sum(chunks.values()),)), None
    if checkpoint.exists():
        stored = mx.nd.load(str(checkpoint))
        counts, saved = stored["counts"], stored["shards"].asnumpy().tobytes().decode()
    kvstore.set_optimizer(mx.optimizer.create("sgd", learning_rate=-1.0, rescale_grad=1.0))
    kvstore.init("counts", counts)
    deal, done = Deal.begin(chunks, BATCH, kvstore.num_workers, saved=saved), 0
    batches = iter(deal.batches(kvstore.rank))
    gradient = mx.nd.zeros(counts.shape)
    for step in range(steps):
        if done == deal.steps:
            deal, done = deal.next(), 0
            batches = iter(deal.batches(kvstore.rank))
        ones = np.zeros(counts.shape, np.float32)
        for piece in next(batches):
            for key in range(piece.begin, piece.end):
                (example,) = struct.unpack("<I", records[piece.chunk].read_idx(key))
                ones[example] += 1
        gradient[:] = mx.nd.array(ones)
        kvstore.push("counts", gradient)
        kvstore.pull("counts", out=counts)
        done += 1
        if step + 1 == kept and kvstore.rank == 0:
            text = np.frombuffer(deal.saved(done).encode(), np.uint8)
            stored = {"counts": counts, "shards": mx.nd.array(text, dtype=np.uint8)}
            written = checkpoint.with_suffix(".new")
            mx.nd.save(str(written), stored)
            written.replace(checkpoint)
            line = {**json.loads(deal.saved(done)), "counts": counts.asnumpy().tolist()}
            print(json.dumps(line), flush=True)
    kvstore._barrier()
    os._exit(0)


main()
