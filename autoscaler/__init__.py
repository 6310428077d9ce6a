"""The process that sets each job's number of PSs and workers, once an interval."""
