"""The optimus command."""
