"""One file per language feature. A file is executed anew for every world (tests/capture/case.py)."""
