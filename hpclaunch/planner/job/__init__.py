"""The job as the planner sees it: its data, its batch with epochs and rates, and the question of a plan."""
