"""Models fitted to what a job has shown: its convergence, its speed, and the forecast made of
both."""
