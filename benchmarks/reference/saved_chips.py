"""Reads a trained model as anybody can, with TensorFlow alone, and counts how many photographs it recognizes.

    python saved_chips.py MODEL PHOTOGRAPHS

MODEL: the folder model/ of a run. PHOTOGRAPHS: a folder CLASS/*.jpg, with classes as in MODEL/model.json. Prints
{"saved_model_accuracy", "keras_file_accuracy", "photographs"} as JSON: the accuracy of both forms of the model.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

if importlib.util.find_spec("tf_keras"):  # the files are of Keras 2; from TensorFlow 2.16 on tf.keras is Keras 3
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf


def photographs(folder: Path, classes: list[str]) -> tuple[tf.Tensor, list[int]]:
    """The images, uint8 [n, height, width, 3], and the place of each one's class among `classes`."""
    files = [(file, label) for label, name in enumerate(classes) for file in sorted((folder / name).glob("*.jpg"))]
    if not files:
        raise SystemExit(f"no photographs of the classes {classes} in {folder}")
    images = [tf.io.decode_jpeg(file.read_bytes(), channels=3) for file, _ in files]
    return tf.stack(images), [label for _, label in files]


def accuracy(outputs: tf.Tensor, labels: list[int]) -> float:
    found = tf.argmax(outputs, axis=1).numpy().tolist()
    return sum(map(int.__eq__, found, labels)) / len(labels)


def main(model: Path, folder: Path) -> None:
    about = json.loads((model / "model.json").read_text())
    images, labels = photographs(folder, about["classes"])
    serve = tf.saved_model.load(str(model / "saved_model")).signatures["serving_default"]
    keras = tf.keras.models.load_model(model / about["files"][0], compile=False)
    found = {
        "saved_model_accuracy": accuracy(serve(inputs=images)["outputs"], labels),
        "keras_file_accuracy": accuracy(keras(images, training=False), labels),
        "photographs": len(labels),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
