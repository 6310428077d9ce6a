"""The whole loop on a real control plane: jobs measured, grown, shrunk, brought to their goals,
whatever happens."""
