"""TrainingProfiles: what is written to a job's profile, and when."""
