"""The only shipped code that talks to the Kubernetes API server."""
