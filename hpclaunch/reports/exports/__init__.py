"""A run as the files of other tools: TensorBoard, MLflow, RO-Crate."""
