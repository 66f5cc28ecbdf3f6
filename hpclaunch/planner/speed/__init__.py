"""How fast a job is on so many nodes, and what that takes and costs."""
