"""The programs of the control plane: pinned Go modules, built once per machine and cached."""
