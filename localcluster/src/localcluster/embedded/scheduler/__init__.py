"""A stand-in for kube-scheduler, without back-off, preemption and parallel binding."""
