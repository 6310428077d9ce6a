"""Whole simulations of drawn workloads."""
