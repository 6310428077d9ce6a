"""Scripts of small jobs, for the environments of the frameworks."""
