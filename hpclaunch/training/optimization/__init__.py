"""The update of the weights: optimizers, rates, precision, averaging of gradients, batch norm over ranks."""
