"""Both processes beside training operator 1.9.3: TFJobs alone, and a webhook in front of them."""
