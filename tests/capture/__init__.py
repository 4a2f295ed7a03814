"""Python semantics under `vesta.compile`: small functions run plain and compiled, everything observable compared."""
