"""``python -m vesta``: the command ``vesta``."""

import sys

from vesta.command import main

sys.exit(main())
