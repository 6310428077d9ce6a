"""The speed model: steps per second as a function of (PS, workers) (Optimus, section 3.2)."""
