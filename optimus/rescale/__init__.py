"""The life of one rescale: its purpose, when its job may be stopped, and how many at once."""
