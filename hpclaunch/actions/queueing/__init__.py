"""From a checked script to ranks that run: submission once, arrays in parts, retries, and waiting for the end."""
