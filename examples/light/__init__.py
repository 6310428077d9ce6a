"""The light trainer: real parameter-server training in numpy, with stated costs of compute and
transfer.

`python -m examples.light` is one task of a job: a parameter server, a worker or MXNet's scheduler,
as TF_CONFIG or DMLC_* say. Parameters and gradients are real and travel over sockets. Beside that,
each task spends the time that a larger model would (`costs`), so that the numbers of PSs and
workers decide the speed even where dozens of tasks share two cores.
"""
