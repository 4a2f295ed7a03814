"""`python -m bench.peers`: see bench/peers/bench.py."""

import sys

from bench.peers.bench import main

sys.exit(main())
