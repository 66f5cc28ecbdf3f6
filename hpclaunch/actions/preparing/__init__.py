"""From a request to a checked script: the case, the program that is handed over, the resolved spec, all refusals."""
