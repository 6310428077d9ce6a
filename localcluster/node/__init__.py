"""A node agent: it registers nodes with a Kubernetes API server and runs their pods as local processes.

It keeps the parts of a kubelet's behaviour that schedulers, operators and users can see: admission, init
containers and sidecars, restart policies with back-off, probes, grace periods, phases and conditions, logs.
What a container engine would give is missing on purpose: no isolation, no resource limits, no mount or
network namespace. Paths, ports and host names are rewritten instead (`rewriting`, `services`, `volumes`).
"""
