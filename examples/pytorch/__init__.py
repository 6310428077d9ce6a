"""A real PyTorch job: DistributedDataParallel over gloo, resumable at any number of workers."""
