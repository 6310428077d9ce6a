"""The training operator."""
