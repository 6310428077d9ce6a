"""The extender's state: the cluster, reservations and offers."""
