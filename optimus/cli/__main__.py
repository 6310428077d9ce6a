"""``python -m optimus.cli``: the same as the console script ``optimus``."""

import sys

from optimus.cli.main import main

sys.exit(main())
