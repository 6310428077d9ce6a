"""A stand-in for kube-scheduler, without back-off and parallel binding."""
