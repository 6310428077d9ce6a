"""The process that keeps the components of one cluster running."""
