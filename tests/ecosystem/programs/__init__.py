"""Programs by library, or by family of libraries; every file enters its own into the table (program.py)."""
