"""The stand-ins of the training operator and of kube-scheduler: what each decides, without a
cluster."""
