"""Replays workloads on a virtual clock with the very code that decides on a cluster
(``optimus.interval``).

What is true in a simulated config, speeds, losses, noise, lives apart from the models that have to
find it out."""
