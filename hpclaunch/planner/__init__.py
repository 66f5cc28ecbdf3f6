"""How many nodes a job is worth at a site, how it trains there, and why; pure: it starts and reads nothing."""
