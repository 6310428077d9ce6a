"""``python -m cli``: the same as the console script ``optimus``."""

import sys

from cli.main import main

sys.exit(main())
