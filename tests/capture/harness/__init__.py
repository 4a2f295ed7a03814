"""Programs on which the harness itself is tested."""
