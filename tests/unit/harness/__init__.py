"""The tools of the end-to-end scenarios, tested without a cluster."""
