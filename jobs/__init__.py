"""What is submitted: each script parses, loads a config, calls `pipeline`, and prints. Nothing imports it."""
