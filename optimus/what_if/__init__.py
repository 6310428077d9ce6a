"""What if a job came now, or had other counts: answers by what the autoscaler decides by."""
