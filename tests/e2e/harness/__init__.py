"""What the end-to-end scenarios are written with: a cluster under Optimus, jobs, what to read from them, an oracle."""
