"""What the harness is tried on."""
