"""Turns a policy's answer into decisions: one module for each way, chosen by its traits."""
