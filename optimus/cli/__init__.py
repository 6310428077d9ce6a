"""The command ``optimus``: evaluate the models, policies and simulator on your own history.

Each command is one module with a ``Command`` that turns its arguments into an ``Answer`` (module
``command``), which ``main`` prints as text or JSON and plots where asked. The decisions are those
of the pure part (``optimus.models``, ``optimus.interval``) and the simulator."""
