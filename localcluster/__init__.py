"""A real Kubernetes control plane on this machine, with nodes whose pods are local processes."""
