"""Training logs: every format, every trap, the accumulator."""
