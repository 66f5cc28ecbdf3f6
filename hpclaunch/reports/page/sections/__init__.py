"""The sections of a run's page, one module each."""
