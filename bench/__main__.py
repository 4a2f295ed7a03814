"""`python -m bench`: see bench/bench.py."""

import sys

from bench.bench import main

sys.exit(main())
