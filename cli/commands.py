"""All commands, in the order in which ``optimus --help`` lists them."""

from cli.command import Command

COMMANDS: tuple[Command, ...] = ()
