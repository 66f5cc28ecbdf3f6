"""What is known of clusters: which one this machine belongs to, how one is shown, and how one is described."""
