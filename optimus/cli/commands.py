"""All commands, in the order in which ``optimus --help`` lists them."""

from optimus.cli.command import Command
from optimus.cli.evaluate_convergence import COMMAND as EVALUATE_CONVERGENCE
from optimus.cli.evaluate_speed import COMMAND as EVALUATE_SPEED
from optimus.cli.forecast import COMMAND as FORECAST
from optimus.cli.plan import COMMAND as PLAN
from optimus.cli.simulate import COMMAND as SIMULATE

COMMANDS: tuple[Command, ...] = (SIMULATE, EVALUATE_SPEED, EVALUATE_CONVERGENCE, FORECAST, PLAN)
