"""Convergence, speed, design and forecasts."""
