"""What the product meets of Kubernetes and of the training operator, asked of the real ones and of
their stand-ins."""
