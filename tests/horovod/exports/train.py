"""Trains the network; the settings choose what an exported model must not depend on: accumulation, ghost batch norm."""

from hpclaunch import training

settings = training.settings(epochs=4, batch_size_per_rank=12, learning_rate=0.02, batch_norm="ghost")
settings.ghost_batch_size, settings.accumulation = 6, 2
with training.start(settings) as run:
    from network import network

    data = training.arrays(run)
    model = training.fit(run, lambda: network(training.batch_norm(run, momentum=0.8)), data)
    training.evaluate(run, model, data)
