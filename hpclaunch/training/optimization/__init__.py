"""How weights are changed: optimizers, rates, precision, averaging of gradients, batch norm over ranks."""
