"""A stand-in for kube-scheduler: what this software meets of it, without back-off, preemption and
parallel binding."""
