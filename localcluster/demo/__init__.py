"""The demo: two annotated jobs train under Optimus on a real control plane, and a table shows what happens and why."""
