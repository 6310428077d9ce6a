"""The state of each managed job between two observations of the cluster."""
