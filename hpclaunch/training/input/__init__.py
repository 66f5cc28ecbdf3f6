"""The training data of a rank: data sets by layout, shards, decoding, augmentation and the pipeline."""
