"""The extender's HTTP side: protocol, application, server."""
