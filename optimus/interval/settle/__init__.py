"""Turns a policy's answer into decisions (``settlement``)."""
