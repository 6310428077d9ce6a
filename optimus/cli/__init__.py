"""The ``optimus`` command: try the models, the policies and the simulator on your own history.

Each command is one module: a ``Command`` that turns its arguments into an ``Answer`` (module
``command``), which this package prints as a table or as JSON and plots where asked. Nothing here
decides anything: the brain is
``scheduling``, and the replaying of workloads ``simulator``.
"""
