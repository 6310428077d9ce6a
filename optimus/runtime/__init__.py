"""What both processes need to run: settings from flags and environment, a health server."""
