"""A real Apache MXNet parameter-server job: Module and a distributed kvstore, resumable after a
rescale."""
