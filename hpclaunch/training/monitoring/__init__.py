"""What is measured, kept and decided while a model trains, epoch by epoch; it changes no weight of a step."""
