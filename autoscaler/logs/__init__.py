"""Polling of training logs through the API server."""
