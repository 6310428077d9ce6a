"""Placement rules that Optimus is compared with: per-pod packing and spreading."""
