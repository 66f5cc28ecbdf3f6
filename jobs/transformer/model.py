"""A decoder-only transformer (GPT) whose size is a setting; ranks can share its layers, or be stages of a pipeline."""

import tensorflow as tf

from hpclaunch.training import layers as shared
from hpclaunch.training.model_parallel import collectives, groups

SPREAD = 0.02  # of the first weights, as in GPT-2


class PositionEmbedding(tf.keras.layers.Layer):
    """Adds a learned vector for each position to [b, context, hidden]."""

    def build(self, shape):
        self.table = self.add_weight("table", shape[1:], initializer=tf.keras.initializers.RandomNormal(stddev=SPREAD))

    def call(self, inputs):
        return inputs + tf.cast(self.table, inputs.dtype)


def gpt(layers=2, hidden=128, heads=4, context=64, vocabulary=1024, dropout=0.0) -> tf.keras.Model:
    """Tokens [b, context] -> logits of the next tokens, float32 [b, context, vocabulary]; with tensor_parallel a part.

    It has 12 layers hidden^2 + 13 layers hidden + (2 vocabulary + context + 2) hidden parameters.
    As GPT-2 (Radford et al. 2019): normalization before attention and before the dense layers, learned positions, GELU;
    the weights of what is added to the residual stream begin smaller by the root of the additions. The output has
    weights of its own, so that the first and the last stage of a pipeline share none.
    """
    keras = tf.keras.layers

    def normal(additions=1):
        return tf.keras.initializers.RandomNormal(stddev=SPREAD / additions**0.5)

    def block(x):
        y = keras.LayerNormalization(epsilon=1e-5)(x)
        attention = shared.ParallelAttention(heads, causal=True, dropout=dropout, kernel_initializer=normal())
        x = x + keras.Dropout(dropout)(attention(y))
        y = keras.LayerNormalization(epsilon=1e-5)(x)
        y = shared.ColumnParallelDense(4 * hidden, activation="gelu", kernel_initializer=normal())(y)
        y = shared.RowParallelDense(hidden, kernel_initializer=normal(2 * layers))(y)
        return x + keras.Dropout(dropout)(y)

    def embedding(tokens):
        x = shared.VocabularyParallelEmbedding(vocabulary, hidden, initializer=normal())(tokens)
        return keras.Dropout(dropout)(PositionEmbedding(name="positions")(x))

    def logits(x):
        x = keras.LayerNormalization(epsilon=1e-5)(x)
        return shared.ColumnParallelDense(vocabulary, use_bias=False, kernel_initializer=normal(), dtype="float32")(x)

    tokens = keras.Input((context,), dtype="int32")
    return shared.in_blocks(tokens, [embedding, *[block] * layers, logits], (context, hidden), name="gpt")


def loss():
    """The cross-entropy of the next tokens, from what `gpt` gives."""
    return shared.VocabularyParallelCrossentropy()


def continued(model, tokens, length, context):
    """Tokens [n] with `length` more, each the most probable one after those before it; the same in every run.

    context: the tokens of a sample. A collective of the ranks that share the model.
    """
    tokens = [int(token) for token in tokens]
    group = groups.tensor()

    @tf.function
    def predict(window):
        return collectives.join(model(window, training=False), group, "continued")

    for _ in range(length):
        window = tokens[-context:]
        logits = predict(tf.constant([window + [0] * (context - len(window))], tf.int32))
        tokens.append(int(tf.argmax(logits[0, len(window) - 1])))
    return tokens
