"""What each verb does: it takes clock, folders and environment, and returns values; it prints nothing."""
