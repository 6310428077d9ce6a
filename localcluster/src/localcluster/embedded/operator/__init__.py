"""A stand-in for the Kubeflow training operator v1.7: what this software meets of it, hazards
included."""
