"""A real TensorFlow 2 parameter-server job: a ClusterCoordinator loop, resumable after a
rescale."""
