"""What is submitted: each script parses, loads a config, calls `pipeline`, prints."""
