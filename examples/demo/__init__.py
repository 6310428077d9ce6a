"""The demo: two annotated jobs train on a local control plane, under Optimus and untouched."""
