"""Faults between a client and an API server, the real one or the embedded one.

`faults` are the values, `matching` decides which call meets which (pure), `proxy` stands between
the two and lets it happen. `cluster` puts one before a running local cluster.
"""
