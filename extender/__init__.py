"""The kube-scheduler HTTP extender: it decides which node each pod of a training job goes to."""
