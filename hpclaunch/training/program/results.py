"""What the trained model is worth on samples that it has not seen."""

from __future__ import annotations

from typing import Any, Sequence

from hpclaunch.training import evaluation, language
from hpclaunch.training.monitoring.validation import Compiled
from hpclaunch.training.program import confusion
from hpclaunch.training.program.run import Run
from hpclaunch.training.program.sharded_data import Data
from hpclaunch.training.rank import strategies, watch
from hpclaunch.training.rank.failure import AgreedError


def evaluate(run: Run, model: Any, data: Data, splits: Sequence[str] = ("test",)) -> dict[str, Any]:
    """Evaluate the model on these splits, log the results as the run's last line, and print them. A collective.

    Every rank evaluates its part; sums are added over the ranks and divided once, so every sample counts once. Returns
    {"test_accuracy", "test_loss", "test_samples"} for targets that are classes, {"test_mae", "test_mse",
    "test_samples"} for numbers, {"test_loss", "test_perplexity", "test_bits_per_byte", "test_tokens", "test_samples"}
    for text; and the same for every other split. With the setting top_k also "test_top_5_accuracy"
    (of 5), and with confusion_matrix "test_confusion": the name of the file in the run directory that has the matrix.
    If a sample has several targets, or a weight, the results are the loss and the metrics that `fit` was given, as one
    process of Keras's evaluate has them ("test_loss", "test_price_loss", ...), and "test_samples".
    """
    watch.reached("the evaluation")
    trained = strategies.alone(model, run.world)
    results: dict[str, Any] = {}
    for split in splits:
        batches = data.held_out(split)
        if data.source.needs_own_measures:
            found = _evaluate_as_compiled(run, model, data, split)
        elif data.source.token_bytes:
            found = evaluation.language(trained, batches, run.world, data.source.token_bytes[split])
        elif data.source.has_classes:
            asked = run.settings
            logits = evaluation.gives_logits(model.loss)
            found = evaluation.evaluate(trained, batches, run.world, logits, asked.top_k, asked.confusion_matrix)
            if evaluation.CONFUSION in found:
                found[evaluation.CONFUSION] = confusion.write(run, data, split, found[evaluation.CONFUSION])
        else:
            found = evaluation.errors(trained, batches, run.world)
        results.update((split + name[len("test") :], value) for name, value in found.items())
    run.end(**results)
    if run.is_root:
        print(", ".join(_result_words(split, results, data) for split in splits), flush=True)
    return results


def _evaluate_as_compiled(run: Run, model: Any, data: Data, split: str) -> dict[str, Any]:
    if not model.loss:
        raise AgreedError(
            "samples with several targets, or with weights, are evaluated by the loss of training.fit: a custom loop "
            "evaluates them itself, on data.held_out({!r})".format(split),
            speaks=run.is_root,
        )
    found = Compiled(run.world, lambda: data.held_out(split))(model)
    return {**{"test_" + name: value for name, value in found.items()}, "test_samples": data.held_out.counts[split]}


def _result_words(split: str, results: dict[str, Any], data: Data) -> str:
    if data.source.needs_own_measures:
        return "{0} loss {1:.4f} on {2} samples".format(split, results[split + "_loss"], results[split + "_samples"])
    if data.source.token_bytes:
        return language.in_words(split, results)
    key, words = ("accuracy", "accuracy") if data.source.has_classes else ("mae", "mean absolute error")
    noun = "images" if data.source.has_images else "samples"
    return "{} {} {:.4f} on {} {}".format(
        split, words, results["{}_{}".format(split, key)], results[split + "_samples"], noun
    )
