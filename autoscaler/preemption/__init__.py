"""Gang preemption: which jobs are paused for a waiting gang, until it has its nodes."""
