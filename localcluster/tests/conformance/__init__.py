"""What the product relies on in Kubernetes and the training operator, on the real ones and here."""
