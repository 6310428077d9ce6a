"""Commands that run whole simulations."""
