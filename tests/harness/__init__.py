"""The parts of scenarios: a cluster under Optimus, jobs, recorders, and an oracle."""
