"""Both processes at work, one behaviour per file, on the real control plane."""
