"""Whether and how the nodes of a site hold the model of a job."""
