"""The base of both processes: settings from flags and environment, a health server."""
