"""A 3D CNN with an LSTM of Etalumis's size, built in Keras to count its figures; as a program it prints them.

    python benchmarks/reference/jobs/etalumis/network.py --addresses 4 --steps 20
    cd benchmarks/reference && hpclaunch plan etalumis --site perlmutter --recipe etalumis-15m

It is for the planner alone: the traces of Sherpa, on which Etalumis was trained, are not public.

Etalumis (Baydin et al. 2019, arXiv 1907.03382) learns which values a simulator has drawn, from what a detector sees:
voxels [20, 35, 35]. The layers are those of pyprob (pyprob/nn/embedding_cnn_3d_5c.py and inference_network_lstm.py):
five convolutions, an LSTM of two layers, and for each address of a random choice in the simulator an embedding and a
proposal of its own. Most of the parameters are those of the proposals. The size of a proposal and the number of
addresses are not published with the network's size: proposals are a mixture of ten normal distributions behind one
hidden layer, and the addresses are as many as the published number of parameters needs. An input of the LSTM has what
the detector sees, the address of its step and the value before it.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

VOXELS = (20, 35, 35, 1)
OBSERVED, WIDE, ADDRESS, VALUE = 256, 512, 256, 16
"""Values of the observation's embedding, of a layer of the LSTM, of the embeddings of an address and of a value."""
MIXTURE = 3 * 10
HIDDEN = (WIDE + MIXTURE) // 2


def of_an_address() -> int:
    """The parameters that belong to one address: its embedding and its proposal."""
    return ADDRESS + WIDE * HIDDEN + HIDDEN + HIDDEN * MIXTURE + MIXTURE


def network(addresses: int, steps: int) -> Any:
    """The Keras model: voxels [b, 20, 35, 35, 1], addresses [b, steps] and values [b, steps, 1] -> [b, steps, 30]."""
    import tensorflow as tf

    layers = tf.keras.layers

    class Proposals(layers.Layer):
        """For each step the hidden layer and the mixture of its address, of the LSTM's outputs [b, steps, 512]."""

        def build(self, shape: Any) -> None:
            sizes = {"first": (WIDE, HIDDEN), "bias": (HIDDEN,), "last": (HIDDEN, MIXTURE), "shift": (MIXTURE,)}
            self.held = {name: self.add_weight(name, (addresses, *size)) for name, size in sizes.items()}

        def call(self, inputs: Any) -> Any:
            wide, chosen = inputs
            own = {name: tf.gather(weight, chosen) for name, weight in self.held.items()}
            hidden = tf.nn.relu(tf.einsum("bsw,bswh->bsh", wide, own["first"]) + own["bias"])
            return tf.einsum("bsh,bshm->bsm", hidden, own["last"]) + own["shift"]

    voxels = layers.Input(VOXELS)
    chosen, values = layers.Input((steps,), dtype=tf.int32), layers.Input((steps, 1))
    x = voxels
    for filters in ((64, 64), (128, 128, 128)):
        for number in filters:
            x = layers.Conv3D(number, 3, activation="relu")(x)
        x = layers.MaxPool3D(2)(x)
    seen = layers.RepeatVector(steps)(layers.Dense(OBSERVED, "relu")(layers.Flatten()(x)))
    x = layers.Concatenate()([seen, layers.Embedding(addresses, ADDRESS)(chosen), layers.Dense(VALUE)(values)])
    for _ in range(2):
        # Without a loop, TensorFlow's profiler counts the operations of every step.
        x = layers.LSTM(WIDE, return_sequences=True, unroll=True)(x)
    return tf.keras.Model([voxels, chosen, values], Proposals()([x, chosen]))


if __name__ == "__main__":
    from hpclaunch.training import model_probe

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--addresses", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_known_args()[0]
    print(json.dumps(model_probe.figures(network(asked.addresses, asked.steps)), indent=1))
