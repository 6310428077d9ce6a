"""What the extender knows of the cluster and has promised of it."""
