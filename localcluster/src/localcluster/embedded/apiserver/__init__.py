"""A small API server: a store with a log of its changes (`store`), and routes on it (`routes`).

A request is handled in one piece on one thread, so that whatever it reads and writes is one moment.
What a real control plane does later and on its own (garbage collection, ServiceAccounts of a
namespace, bound claims, taints of nodes that are not ready) is done by `controllers`, each of which
looks at what changed and says what to write.

Left out on purpose: TLS, what a caller may do, protobuf, the Go types of built-in objects (their
unknown fields stay), CEL other than `self == oldSelf`, admission webhooks.
"""
