"""What the ranks find on their nodes: modules, Python, container, variables and folders."""
