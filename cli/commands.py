"""All commands, in the order in which ``optimus --help`` lists them."""

from cli.command import Command
from cli.evaluate_convergence import COMMAND as EVALUATE_CONVERGENCE
from cli.evaluate_speed import COMMAND as EVALUATE_SPEED
from cli.forecast import COMMAND as FORECAST
from cli.plan import COMMAND as PLAN
from cli.simulate import COMMAND as SIMULATE

COMMANDS: tuple[Command, ...] = (SIMULATE, EVALUATE_SPEED, EVALUATE_CONVERGENCE, FORECAST, PLAN)
