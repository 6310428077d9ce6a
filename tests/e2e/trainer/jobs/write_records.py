"""Write RecordIO parts of numbered examples: `python write_records.py FOLDER SIZE...`."""

import struct
import sys
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

folder, number = Path(sys.argv[1]), 0
for part, size in enumerate(map(int, sys.argv[2:])):
    path = str(folder / f"part-{part}")
    record = mx.recordio.MXIndexedRecordIO(f"{path}.idx", f"{path}.rec", "w")
    for key in range(size):
        record.write_idx(key, struct.pack("<I", number))
        number += 1
    record.close()
