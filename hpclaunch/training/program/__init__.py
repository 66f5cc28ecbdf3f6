"""What a training script calls: its settings, the start of its rank, its data, the training, the results."""
