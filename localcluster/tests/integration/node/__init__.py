"""The node agent with real processes, sockets and files, and an API server that is a dictionary."""
