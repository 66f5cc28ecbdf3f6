"""What all rooms share; it uses the standard library only."""
