"""What scenarios are written with: a cluster under Optimus, jobs, what there is to read of them, an
oracle."""
