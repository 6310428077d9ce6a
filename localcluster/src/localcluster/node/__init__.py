"""A node agent: it registers nodes with a Kubernetes API server and runs their pods as local
processes.

It keeps the parts of a kubelet's behaviour that schedulers, operators and users can see: admission,
init containers and sidecars, restart policies with back-off, probes, grace periods, phases and
conditions, Events, logs. What a container engine would give is missing on purpose: no isolation, no
resource limits, no users, no mount or network namespace. What stands in for it:

- images: a name is looked up in a catalog of environments on this machine (`localcluster.images`);
- paths: a mount path in arguments, variables and config map files becomes the volume's local folder
  (`volumes`, `rewriting`); a ServiceAccount's fixed path cannot be made, so a `kubeconfig` lies
  beside the mounted token;
- ports: each declared port becomes one of its own, written to the pod's annotation
  `localcluster/ports`;
- host names of a training job's peers become 127.0.0.1 and a port for this run of the job
  (`services`);
- Services and cluster DNS do not exist; exec, attach and port-forward are refused with a sentence.

Whatever else is not supported leaves the container waiting with the reason `Unsupported` and a
sentence (`support`). `pod` holds the lifecycle as a state machine without I/O, `runner` and
`processes` carry it out, `agent` ties the threads together. Containers die with the agent; the next
one runs their pods again as the restart policies say."""
