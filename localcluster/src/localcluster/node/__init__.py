"""A node agent: it registers nodes with an API server and runs their pods as local processes.

It keeps the parts of a kubelet's behaviour that schedulers, operators and users see: admission,
init containers and sidecars, restart policies with back-off, HTTP probes, grace periods, phases and
conditions, Events, logs. There is no isolation, no resource limit, no user, no mount or network
namespace. What stands in for them:

- images: a name is looked up in a catalog of environments on this machine (`localcluster.images`);
- paths: a mount path in arguments, variables and config map files becomes the volume's local folder
  (`volumes`, `rewriting`); a `kubeconfig` lies beside a mounted ServiceAccount token;
- ports: each declared port becomes one of its own, written to the annotation `localcluster/ports`;
- host names of a training job's peers become 127.0.0.1 and a port of their own (`peer_addresses`);
- Services and cluster DNS do not exist; exec, attach and port-forward are refused with a sentence.

Whatever else is not supported leaves the container waiting with the reason `Unsupported` and a
sentence (`pod_spec.unsupported`). `state_machine` holds the lifecycle without I/O, `runner` and
`pod_processes` carry it out, `agent` owns the threads. Containers end with the agent; the next
agent runs their pods again as the restart policies say."""
