"""Injects faults between a client and an API server, the real one or the embedded one.

`faults` are values and decide which call meets which (pure); `proxy` stands between client and
server; `cluster` puts it before a running local cluster.
"""
