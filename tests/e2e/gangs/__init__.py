"""Who is planned first, and who gives way: gangs under one extender with a cluster of its own."""
