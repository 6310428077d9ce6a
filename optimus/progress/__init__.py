"""Training logs read as text lines, and what they tell of a job's progress."""
