"""A small API server: a store with a log of its changes (`store`), and routes on it (`routes`).

One thread handles a request in one piece, so whatever it reads and writes is consistent. What a
control plane does on its own afterwards (garbage collection, namespaces, definitions, volume
claims, node taints, Deployments) is done by controllers, which note what changed and act later.

Left out: TLS, RBAC, protobuf, dry runs, server-side apply's field ownership, the Go types of
built-in objects (their unknown fields stay), validation of fields, CEL, admission webhooks.
"""
