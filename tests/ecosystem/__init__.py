"""Programs of other libraries, as their documentation writes them, under `vesta.compile`: see __main__.py."""
