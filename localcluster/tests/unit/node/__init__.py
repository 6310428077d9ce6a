"""The node agent's parts that need no process: state machine, status, rewriting, tables,
admission."""
