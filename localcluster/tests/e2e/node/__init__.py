"""Process nodes under the real control plane."""
