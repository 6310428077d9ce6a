"""A stand-in for the Kubeflow training operator v1.7, hazards included."""
