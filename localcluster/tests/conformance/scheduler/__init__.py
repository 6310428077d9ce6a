"""kube-scheduler, and how it asks an extender."""
