"""Resumes from a checkpoint of an earlier attempt, which all ranks choose together; it needs no TensorFlow."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from hpclaunch.training.checkpoints import epoch_facts, folders, stored
from hpclaunch.training.checkpoints.state import State
from hpclaunch.training.input import loading
from hpclaunch.training.input.epoch_order import Part, Sampler
from hpclaunch.training.metrics import FILE, MetricsLog
from hpclaunch.training.rank import fence
from hpclaunch.training.rank.failure import AgreedError, leave_if_superseded
from hpclaunch.training.rank.world import World

FOLDER_VARIABLE = "HPCLAUNCH_CHECKPOINT_DIR"
# Options that may differ between attempts without a change of the result.
FREE = {"epochs", "resume", "checkpoint_minutes", "checkpoint_steps", "keep_checkpoints", "stall_minutes"}
FREE |= {"record_shards", "data_dir", "stage_to", "noise_scale", "validation_every", "validate_on"}
FREE |= {"top_k", "confusion_matrix", "tensorboard", "profile_first", "profile_steps", "profile_rank"}
FREE |= {"export_model", "mlflow"}
FREE |= {"tensor_parallel", "pipeline_stages", "recompute", "shard_optimizer", "shard_weights"}
FREE |= {"monitor", "monitor_mode", "min_delta", "patience", "keep_best", "restore_best"}
TO_THE_LAST_EPOCH = ("polynomial", "cosine")  # decays whose shape depends on the number of epochs


@dataclass(frozen=True)
class Place:
    """The progress of a training: `epoch` and `step` in it come next (from 0); `made`: the steps of all attempts.

    parts: what was read of the epoch so far; None if the samples of an epoch cannot be told apart (a stream). path: the
    checkpoint that it comes from, if any. data: the fingerprint of the data, for the next checkpoint.
    epochs_facts: what the checkpoint says of the epochs so far (epoch_facts). lineage: the checkpoints that led here.
    """

    epoch: int = 0
    step: int = 0
    made: int = 0
    path: str = ""
    data: str = ""
    epochs_facts: Mapping[str, Any] = field(default_factory=dict)
    lineage: folders.Lineage = folders.ALONE
    parts: tuple[Part, ...] | None = ()


def folder_of(world: World) -> str:
    """The folder of this run's checkpoints: HPCLAUNCH_CHECKPOINT_DIR, else checkpoints/ in the run directory."""
    return os.environ.get(FOLDER_VARIABLE) or os.path.join(world.run_dir, "checkpoints")


def restore(
    world: World,
    state: State,
    asked: Any,
    steps: int,
    log: MetricsLog,
    data: str = "",
    sampler: Sampler | None = None,
) -> Place:
    """Restore the newest intact checkpoint on every rank, and return where training continues. A collective.

    steps: those of an epoch in this world. sampler: of the samples; in a world of another size it divides what is left
    of the epoch. Without one, or if the samples have another order now, training continues at the same part of the
    epoch. data: the fingerprint of the data; rank 0 reports if the checkpoint's differs.
    Lines of metrics.jsonl after the checkpoint move to metrics-repeated.jsonl. The newest is that of the newest start;
    what an earlier one completes from now on does not count (folders.Lineage). A superseded start ends here.
    Raises AgreedError if there are checkpoints, but none can be used, or if an option cannot be another than in the
    newest.
    """
    folder = folder_of(world)
    if not asked.resume:
        loading.from_root(world, lambda: _set_aside_each(folders.existing(folder)))
    path, facts = _choose(world, folder) if asked.resume else ("", {})
    if not path:
        return Place(data=data, lineage=folders.Lineage(fence.number()), parts=() if sampler else None)
    fixed = refused(asked, facts["options"])
    if fixed:
        raise AgreedError(
            "{} was saved with {}: resume it so, or start again with --resume=false".format(path, fixed),
            speaks=world.is_root,
        )
    if world.is_root:
        _tell(world, path, facts, asked, data, sampler is not None)
    _put_back(world, state, path, facts)
    lineage = lineage_from(path, facts)
    loading.from_root(world, lambda: folders.set_late_aside(folder, lineage))
    loading.from_root(world, lambda: _cut(os.path.join(world.run_dir, FILE), facts["metrics_bytes"], log.began))
    epoch, step, parts = _next_in_data(steps, facts, sampler if _is_exact(asked, facts, data) else None)
    if parts is None and sampler:
        # What was read is not known: it counts as the beginning of the epoch in the order of now.
        parts = (Part(world.replicas, step * asked.batch_size_per_rank * asked.accumulation),) if step else ()
        sampler.resume(epoch, parts)
    place = Place(epoch, step, facts["step"], path, data, facts.get("epochs") or {}, lineage, parts)
    log.write(
        "resume",
        checkpoint=path,
        epoch=place.epoch,
        step=place.step,
        steps_made=place.made,
        world_size=world.size,
        world_size_before=facts["world_size"],
    )
    return place


OF_THE_ORDER = ("seed", "train_samples", "validation_part", "reshuffle")
"""The options that determine which samples an epoch has, and in which order."""


def _is_exact(asked: Any, facts: Mapping[str, Any], data: str) -> bool:
    """Whether the samples that were read of the epoch are known, and are the same ones in the order of now."""
    then, now = facts["options"], vars(asked)
    same = all(then[name] == now[name] for name in OF_THE_ORDER if name in then and name in now)
    return facts.get("epoch_parts") is not None and same and (facts.get("data") or data) == data


def _next_in_data(
    steps: int, facts: Mapping[str, Any], sampler: Sampler | None
) -> tuple[int, int, tuple[Part, ...] | None]:
    """The epoch and the step that come next, and what was read of that epoch; None if it is not known exactly.

    sampler: goes on after exactly what was read; without one, training goes on at the same part of the epoch.
    """
    if not facts["epoch_step"]:
        return facts["epoch"], 0, () if sampler else None
    if sampler is None:
        return facts["epoch"], facts["epoch_step"] * steps // facts["steps_per_epoch"], None
    parts = tuple(Part(*one) for one in facts["epoch_parts"])
    return facts["epoch"], sampler.resume(facts["epoch"], parts), parts


def lineage_from(path: str, facts: Mapping[str, Any]) -> folders.Lineage:
    """The lineage of a training that continues from a checkpoint.

    If somebody has removed the claims, the script counts its starts from 1 again. Such a start goes on under the number
    of the checkpoint, and the order of its checkpoints is that of their steps.
    """
    start, step = folders.order_of(path)
    earlier = {int(number): last for number, last in facts.get("earlier_starts", {}).items()}
    now = fence.number()
    return folders.Lineage(start, earlier) if now <= start else folders.Lineage(now, {**earlier, start: step})


def refused(asked: Any, options: Mapping[str, Any]) -> str:
    """Which option, with its value in a checkpoint, cannot be another now; empty if there is none.

    Only one of checkpoint and settings would have a gradient that waits for its step, or what Muon keeps of a weight
    would be read as what AdamW keeps.
    """
    names: dict[str, Any] = {"gradient_lag": False}
    if getattr(asked, "optimizer", "") == "muon":
        names.update(muon_weights="matrices", muon_exclude="")  # as in checkpoints before these options
    for name, before in names.items():
        then, now = options.get(name, before), getattr(asked, name, before)
        if then != now:
            value = str(then).lower() if isinstance(then, bool) else then
            return "--{}={}".format(name.replace("_", "-"), value)
    return ""


def _choose(world: World, folder: str) -> tuple[str, dict[str, Any]]:
    """The newest checkpoint that is intact, with its facts; an empty path if there is no checkpoint. A collective.

    Damaged ones are renamed when one is chosen, or none is left. Raises AgreedError, and renames none, if it comes to
    one of a newer version: in that one's folder, this version cannot tell what is damaged.
    """
    found = loading.from_root(world, lambda: folders.existing(folder))
    damaged = []
    chosen: tuple[str, dict[str, Any]] = ("", {})
    for path in found:
        facts, reason = _facts_and_fault(world, path)
        if not reason:
            chosen = str(path), facts
            break
        damaged.append("{}: {}".format(path, reason))
        if world.is_root:
            print("checkpoint {} is damaged ({}); trying the one before it".format(path, reason), flush=True)
    loading.from_root(world, lambda: _set_aside_each(found[: len(damaged)]))
    if damaged and not chosen[0]:
        raise AgreedError(
            "no checkpoint can be used: {}. They are renamed to unused-…, so that "
            "the run starts from the beginning when it is resumed".format("; ".join(damaged)),
            speaks=world.is_root,
        )
    return chosen


def _facts_and_fault(world: World, path: str) -> tuple[dict[str, Any], str]:
    """The facts of a checkpoint, and what is wrong with it on any rank, in words. A collective."""
    facts, unusable = loading.from_root(world, functools.partial(_facts, path))
    problems = [unusable] if unusable else world.gather(_problem_here(world, path, facts))
    wrong = ["rank {}: {}".format(rank, text) for rank, text in enumerate(problems) if text]
    return facts, printable(wrong[0]) if wrong else ""


def restore_step(world: World, state: State, step: int, lineage: folders.Lineage = folders.ALONE) -> None:
    """Restore the checkpoint of `step` on every rank, such as that of the best epoch. A collective.

    lineage: of the training. Raises AgreedError if it is missing or damaged.
    """
    path = loading.from_root(world, lambda: _path_of_step(folder_of(world), step, lineage))
    facts, reason = _facts_and_fault(world, path)
    if reason:
        raise AgreedError(
            "the best checkpoint {} cannot be used: {}. Resume with --restore-best=false to take the weights of the "
            "last epoch".format(path, reason),
            speaks=world.is_root,
        )
    _put_back(world, state, path, facts)


def _path_of_step(folder: str, step: int, lineage: folders.Lineage) -> str:
    counting = (path for path in folders.existing(folder) if lineage.has(path))
    return folders.of_step(counting, step) or folders.path_of(folder, step, lineage.start)


def _put_back(world: World, state: State, path: str, facts: Mapping[str, Any]) -> None:
    if state.everywhere:
        world.together(lambda: _put_back_for_all(world, state, path, facts), long=True)
    elif world.mesh is None:
        loading.from_root(world, lambda: _put_back_for_all(world, state, path, facts))
    else:  # every rank of the first copy reads what it has of the model
        world.together(lambda: None if world.data_rank else _put_back_for_all(world, state, path, facts), long=True)
    state.spread()
    world.together(lambda: _put_back_own(world, state, path, facts))


def _set_aside_each(paths: Iterable[str]) -> None:
    for path in paths:
        folders.set_aside(path)


def _facts(path: str) -> tuple[dict[str, Any], str]:
    """The facts of a checkpoint, or why training cannot continue from it. Only rank 0 reads them, for all."""
    try:
        facts = folders.facts_of(path)
    except folders.NewerFormat:
        raise
    except Exception as error:  # whatever it is, the checkpoint before this one may be good
        return {}, str(error) or type(error).__name__
    return facts, fault_in(facts)


def _problem_here(world: World, path: str, facts: Mapping[str, Any]) -> str:
    """What is wrong with the files that this rank checks.

    They are its own, and on rank 0 the shared one. If the checkpoint comes from a world of another layout, every rank
    checks a part of all files: ranks that each read all of them would open N times N.
    """
    if _is_same_layout(world, facts):
        names = [folders.own_file(world.data_rank)] + ([folders.SHARED] if world.is_root else [])
        if world.mesh is not None and world.data_rank == 0:
            part = folders.part_file(world.mesh.part)
            names += [part] if part in stored.part_names(facts) else []
    else:
        names = [one["name"] for one in facts["files"]][world.rank :: world.size]
    return folders.problem_in_files(path, facts, names)


COUNTS = {"epoch": 0, "epoch_step": 0, "steps_per_epoch": 1, "step": 0, "metrics_bytes": 0, "world_size": 1}


def fault_in(facts: Mapping[str, Any]) -> str:
    """What is wrong with the facts of a checkpoint, in words; empty if training can continue from them."""
    for name, least in COUNTS.items():
        number = facts.get(name)
        if type(number) is not int or not least <= number < 2**53:
            return "its {} is not a whole number from {}".format(name, least)
    if facts["epoch_step"] >= facts["steps_per_epoch"]:
        return "its epoch_step is not below its steps_per_epoch"
    copies = facts.get("copies", 1)
    if type(copies) is not int or not 0 < copies <= facts["world_size"]:
        return "its copies are not a whole number from 1 to its world size"
    earlier = facts.get("earlier_starts", {})
    if not isinstance(earlier, dict) or not all(map(_is_last_step, earlier.items())):
        return "its earlier starts are not numbers with their last steps"
    return (
        stored.fault_in(facts)
        or _fault_in_files(facts)
        or _fault_in_options(facts)
        or _fault_in_parts(facts)
        or epoch_facts.fault_in(facts.get("epochs"))
    )


def _is_last_step(pair: tuple[str, Any]) -> bool:
    start, step = pair
    return start.isascii() and start.isdigit() and len(start) < 10 and type(step) is int and 0 <= step < 2**53


def _fault_in_files(facts: Mapping[str, Any]) -> str:
    files, copies, parts = facts["files"], _copies(facts), stored.part_names(facts)
    if len(files) != copies + 1 + len(parts):  # compared first: the number of ranks may be very large
        also = " and one for each of {} parts".format(len(parts)) if parts else ""
        return "it has {} files, not one for each of {} ranks and a shared one{}".format(len(files), copies, also)
    missing = {folders.SHARED, *map(folders.own_file, range(copies)), *parts} - {one["name"] for one in files}
    return "it does not name {}".format(min(missing)) if missing else ""


def _fault_in_options(facts: Mapping[str, Any]) -> str:
    options = facts.get("options")
    if not isinstance(options, dict):
        return "it does not name the options"
    for name in ("batch_size_per_rank", "accumulation"):
        if type(options.get(name)) is not int or options[name] < 1:
            return "its option {} is not a whole number from 1".format(name)
    replicas = facts.get("replicas", 1)
    return "" if type(replicas) is int and replicas > 0 else "its replicas are not a whole number from 1"


def _fault_in_parts(facts: Mapping[str, Any]) -> str:
    """What is wrong with what was read of the epoch. Older checkpoints, and those of streams, do not tell it."""
    parts = facts.get("epoch_parts")
    if parts is None:
        return ""
    if not isinstance(parts, list) or not all(map(_is_part, parts)):
        return "its epoch_parts are not numbers of ranks with numbers of samples"
    last = parts[-1][0] if parts else 0
    if last != (facts.get("replicas", facts["world_size"]) if facts["epoch_step"] else 0):
        return "its epoch_parts do not end with what its own ranks have read"
    return ""


def _is_part(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(type(n) is int and 0 < n < 2**31 for n in one)


def _copies(facts: Mapping[str, Any]) -> int:
    """The number of copies of the model that the ranks had: older checkpoints have one for each rank."""
    return int(facts.get("copies", facts["world_size"]))


def _is_same_layout(world: World, facts: Mapping[str, Any]) -> bool:
    return (facts["world_size"], _copies(facts)) == (world.size, world.data_size)


def _put_back_for_all(world: World, state: State, path: str, facts: Mapping[str, Any]) -> None:
    """Read what is shared, for this rank or for all; with another number of copies also the file of each copy."""
    state.compare(path, facts)
    state.put_shared(stored.read(path, facts, state.splits(), state.held()))
    if _copies(facts) != world.data_size:
        names = [folders.own_file(copy) for copy in state.files_of_others(_copies(facts))]
        state.put_average(folders.read(path, name) for name in names)


def _put_back_own(world: World, state: State, path: str, facts: Mapping[str, Any]) -> None:
    if _copies(facts) == world.data_size:
        state.put_own(folders.read(path, folders.own_file(world.data_rank)))
    else:
        state.put_new_random(facts["step"])


def _tell(world: World, path: str, facts: Any, asked: Any, data: str, samples: bool) -> None:
    lines = [
        "resuming from {}: epoch {}, step {} of {}".format(
            path, facts["epoch"] + 1, facts["epoch_step"], facts["steps_per_epoch"]
        )
    ]
    exact = samples and _is_exact(asked, facts, data)
    lines.append(another_size(vars(asked), facts, world.size, world.replicas, exact))
    lines += ["warning: " + text for text in changed(vars(asked), facts["options"]) + other_data(data, facts)]
    for line in lines:
        if line:
            print(printable(line))


def printable(text: str) -> str:
    """The text without characters that UTF-8 does not have: a manifest may contain any, and to print them fails."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def other_data(data: str, facts: Mapping[str, Any]) -> list[str]:
    """A remark if the checkpoint comes from other data, or another layout of them; older checkpoints do not know."""
    before = facts.get("data") or data
    if data == before:
        return []
    what = "the data are not those of the checkpoint ({}, then {})".format(data, before)
    begun = "; in the interrupted epoch, samples may be read twice or not at all"
    return [what + (begun if facts["epoch_step"] else "")]


def another_size(now: Mapping[str, Any], facts: Mapping[str, Any], size: int, replicas: int, exact: bool) -> str:
    """A remark on the consequences if the checkpoint has another number of ranks or replicas; else empty.

    exact: whether it is known which samples the interrupted epoch has left.
    """
    then, size_before = facts["options"], facts["world_size"]
    replicas_before = facts.get("replicas", size_before)
    if (size, replicas) == (size_before, replicas_before):
        return ""
    what = "world size {} instead of {}".format(size, size_before)
    if size == size_before:
        what = "{} replicas instead of {}".format(replicas, replicas_before)
    batch, batch_before = now["batch_size_per_rank"], then["batch_size_per_rank"]
    per_rank = "stays" if batch == batch_before else "is {} instead of {}".format(batch, batch_before)
    whole = batch * now["accumulation"] * replicas
    whole_before = batch_before * then["accumulation"] * replicas_before
    text = (
        "{}: the batch size per rank {}, so the global batch {}; the learning rate follows --scale-learning-rate={}; {}"
    )
    return text.format(
        what,
        per_rank,
        "stays {}".format(whole) if whole == whole_before else "is {} instead of {}".format(whole, whole_before),
        now["scale_learning_rate"],
        "the shards stay" if replicas == replicas_before else _new_shards(facts["epoch_step"], exact),
    )


def _new_shards(begun: int, exact: bool) -> str:
    if not begun:
        return "there are new shards"
    if exact:
        return "there are new shards, in this epoch of the samples that it has left"
    return (
        "there are new shards, from the same part of the epoch on: it reads some samples twice, and others not at all"
    )


def changed(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """Remarks on options that change the result and differ from those of the checkpoint (read from JSON)."""
    free = FREE - ({"epochs"} if now.get("decay") in TO_THE_LAST_EPOCH else set())
    if now.get("global_batch_size"):  # which the ranks divide among them
        free = free | {"batch_size_per_rank"}
    found = []
    for name in sorted(set(now) & set(then) - free):
        held = list(now[name]) if isinstance(now[name], tuple) else now[name]
        if held != then[name]:
            found.append("--{} is now {}, but was {}".format(name.replace("_", "-"), held, then[name]))
    return found


def _cut(path: str, size: int, until: int | None = None) -> None:
    """Move the lines after the checkpoint out of metrics.jsonl, since those steps are made again.

    until: where the lines of this attempt begin, which stay; None: it has written none.
    """
    if not os.path.exists(path) or os.path.getsize(path) <= size:
        return
    leave_if_superseded()
    repeated = os.path.join(os.path.dirname(path), "metrics-repeated.jsonl")
    with open(path, "rb") as file:
        file.seek(size)
        cut = file.read() if until is None else file.read(max(0, until - size))
        new = file.read()
        file.seek(0)
        with open(repeated, "ab") as target:
            target.write(cut)
        if new:
            folders.put_in_place(path, file.read(size) + new)
        else:
            os.truncate(path, size)
