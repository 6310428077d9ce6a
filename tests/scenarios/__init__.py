"""Both processes at work, one behaviour per file, on the real and the embedded control plane."""
