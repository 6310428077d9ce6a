"""The programs of the control plane: pinned Go modules, built once per machine and kept in the
cache."""
