"""What `optimus_trainer` does to jobs of the real frameworks."""
