"""What a project has: its jobs and its data sets."""
