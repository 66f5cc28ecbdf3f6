"""What would be lost: writing and reading it whole, and going on from it."""
