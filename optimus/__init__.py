"""Models, allocation and placement as pure functions of frozen input.

Nothing here performs I/O, reads a clock or draws randomness of its own, which is what lets the
simulator run the same decisions as the cluster. Layers, top to bottom, held by import-linter:
interval > policies | placement > allocation > models > snapshot > quotas | progress | nodes >
jobs > resources | errors."""
