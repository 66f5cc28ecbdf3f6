"""PBS, through its programs qsub, qstat and qdel."""
