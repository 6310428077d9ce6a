"""A real Kubernetes control plane on this machine, for the demo and the end-to-end tests."""
