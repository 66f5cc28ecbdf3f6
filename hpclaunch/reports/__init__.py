"""Pictures and pages of runs, plans and studies."""
