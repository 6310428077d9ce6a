"""The demo: two annotated jobs train under Optimus on a local control plane."""
