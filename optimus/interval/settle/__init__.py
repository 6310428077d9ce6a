"""How a policy's answer becomes decisions: one module for each way, chosen by its traits."""
