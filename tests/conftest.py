"""Before vesta is imported: tests compile what they are to compile, whatever an earlier run has left in a cache."""

import os

os.environ.setdefault("VESTA_CACHE_DIR", "")
