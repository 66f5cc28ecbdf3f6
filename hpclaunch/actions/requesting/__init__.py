"""What was typed, or given by a program or a batch script, as the fields of a request."""
