"""A model divided among the devices of a process by DTensor; Horovod averages gradients between processes."""

import horovod.tensorflow as hvd
import tensorflow as tf
from tensorflow.experimental import dtensor

hvd.init()
KIND = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
DEVICES = 2  # of this process: on GPUs all that its node has
if KIND == "CPU":  # two devices that share the processor
    (processor,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * DEVICES)

mesh = dtensor.create_mesh([("model", DEVICES)], devices=[f"{KIND}:{number}" for number in range(DEVICES)])
whole = dtensor.Layout.replicated(mesh, rank=2)
columns = dtensor.Layout([dtensor.UNSHARDED, "model"], mesh)  # every device has some of the columns
rows = dtensor.Layout(["model", dtensor.UNSHARDED], mesh)


def weights(seed, shape, layout):
    value = tf.random.stateless_normal(shape, (seed, 0)) / shape[0] ** 0.5  # the same on all processes
    return dtensor.DVariable(dtensor.relayout(dtensor.copy_to_mesh(value, whole), layout))


first, second = weights(1, (16, 64), columns), weights(2, (64, 4), rows)
inputs = tf.random.stateless_normal((64, 16), (3, 0))
targets = tf.sin(inputs[:, :4])
own = slice(hvd.rank(), None, hvd.size())  # this process's samples


@tf.function
def gradients(x, y):
    with tf.GradientTape() as tape:
        outputs = tf.matmul(tf.nn.gelu(tf.matmul(x, first)), second)  # DTensor adds up what the devices have of it
        loss = tf.reduce_mean((outputs - y) ** 2)
    return loss, tape.gradient(loss, [first, second])


for step in range(20):
    loss, found = gradients(*(dtensor.copy_to_mesh(values[own], whole) for values in (inputs, targets)))
    for number, variable in enumerate((first, second)):
        gradient = found[number]
        # Horovod averages each device's part with that of the same device of the other processes, outside tf.function.
        parts = [
            hvd.allreduce(part, name=f"gradient.{number}.{device}")
            for device, part in enumerate(dtensor.unpack(gradient))
        ]
        average = dtensor.pack(parts, dtensor.fetch_layout(gradient))
        variable.assign_sub(0.1 * average)
    mean = hvd.allreduce(dtensor.unpack(loss)[0], name="loss")
    if hvd.rank() == 0:
        print(f"step {step} loss {float(mean):.8f}", flush=True)
