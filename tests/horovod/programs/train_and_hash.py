"""Trains jobs/JOB/train.py as it is and leaves hashes of this rank's weights, and whether TensorFlow used oneDNN."""

import hashlib
import importlib
import json
import os
import sys

from hpclaunch import training

job_folder = sys.argv.pop(1)
sys.path.insert(0, job_folder)
script = importlib.import_module("train")
with training.start(script.parse(), "test") as run:
    model = script.train(run)
    hashes = [hashlib.sha256(weight.tobytes()).hexdigest() for weight in model.get_weights()]
    from tensorflow.python.util import _pywrap_util_port

    with open(os.path.join(run.folder, f"onednn-{run.rank}.json"), "w") as file:
        json.dump(_pywrap_util_port.IsMklEnabled(), file)
    with open(os.path.join(run.folder, f"weights-{run.rank}.json"), "w") as file:
        json.dump(hashes, file)
