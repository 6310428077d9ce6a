"""The jobs of real frameworks under the whole loop: they train through a rescale and lose
nothing."""
