"""Shows a profile, on a terminal and as ``--json``: its runs and their measurements; it decides nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hpclaunch.actions.measuring.profile import Design, Result
from hpclaunch.actions.measuring.program_profile import ProgramResult
from hpclaunch.cli.show.console import say, table, warn, write_json
from hpclaunch.core.units import count, format_walltime
from hpclaunch.planner.measured.log_rates import LogRate


def show_design(design: Design, as_json: bool) -> None:
    """Show the runs to submit and their highest cost."""
    if as_json:
        write_json("profile_design", design.to_json())
        return
    for trial in design.trials:
        spec = trial.prepared.spec
        where = " ".join(filter(None, (spec.partition, spec.qos)))
        cost = cost_in_words(spec.cost.amount, spec.cost.unit) if spec.cost else "cost unknown"
        limits = f"at most {format_walltime(spec.walltime)}, {cost}"
        place = " ".join(filter(None, (spec.site, where)))
        say(f"  {trial.words}, {count(spec.layout.world_size, 'rank')}: {place}, {limits}")
    cost_of_all = design.cost()
    if cost_of_all:
        say(f"  all together at most {cost_in_words(*cost_of_all)}")
    for remark in design.remarks:
        say(f"  {remark}")


def cost_in_words(amount: float, unit: str) -> str:
    """Return an amount with its unit: ``1 node-hour``, ``2.5 node-hours``."""
    return f"{amount:.4g} {unit}{'s' * (amount != 1)}"


def show_result(result: Result, target: str, as_json: bool) -> None:
    """Show the measurements and the file that holds them."""
    if as_json:
        write_json("profile", _result_values(result))
        return
    rows = [
        (
            str(measured.nodes),
            str(measured.nodes * measured.ranks_per_node),
            str(measured.per_rank),
            f"{measured.point.samples_per_s:.4g}" if measured.point else "-",
            measured.run.label,
        )
        for measured in result.runs
    ]
    table(("nodes", "ranks", "batch per rank", "samples/s", "run"), rows)
    noise, overhead = result.calibration.noise_scale, result.calibration.overhead_s
    if noise is not None:
        say(f"gradient noise scale {noise.value:.4g} ({noise.low:.4g} to {noise.high:.4g}), over {noise.steps} steps")
    if overhead is not None:
        say(f"time outside the steps: {overhead:.4g} s")
    say(f"stored in {result.place}; later plans use it\n  hpclaunch plan {target} --explain")


def show_program(result: ProgramResult, next_step: str, as_json: bool) -> None:
    """Show the measured speed of a program, its range and what it rests on, its file, and what to type next."""
    if as_json:
        from hpclaunch.planner.measured.calibration_file import as_values

        runs = [{**one.run.to_json(), **asdict(one.rate), "speed_up": result.speed_up(one)} for one in result.runs]
        calibration = as_values(result.calibration)
        write_json("profile", {"runs": runs, "calibration": calibration, "place": str(result.place)})
        return
    rows = [
        (
            str(one.point.nodes),
            str(one.point.nodes * one.point.ranks_per_node),
            "own" if result.calibration.own_batch else str(one.point.per_rank),
            f"{one.point.samples_per_s:.4g}",
            f"{one.point.low:.4g} to {one.point.high:.4g}",
            "-" if (speed_up := result.speed_up(one)) is None else f"{speed_up:.2f}",
            f"{one.rate.steps} ({_loop_in_words(one.rate)}; first {count(one.rate.left_out, 'line')} left out)",
            one.run.label,
        )
        for one in result.runs
    ]
    table(
        ("nodes", "ranks", "batch per rank", f"{result.calibration.unit}/s", "range", "speed-up", "steps", "run"), rows
    )
    for one in result.runs:
        if one.rate.other_loops:
            unknown = "no known number of"
            others = ", ".join(str(other or unknown) for other in one.rate.other_loops)
            warn(
                f"{one.run.label}: the loop of {one.rate.loop or unknown} steps is measured; its log has other loops, "
                f"of {others} steps"
            )
    say(f"stored in {result.place}; later plans use it\n  {next_step}")


def _loop_in_words(rate: LogRate) -> str:
    """Return the format of a rate, and the loop that it is of."""
    return rate.source if rate.loop is None else f"{rate.source}, the loop of {count(rate.loop, 'step')}"


def _result_values(result: Result) -> dict[str, Any]:
    from hpclaunch.planner.measured.calibration_file import as_values

    rows = [{**measured.run.to_json(), "rates": list(measured.rates)} for measured in result.runs]
    return {"runs": rows, "calibration": as_values(result.calibration), "place": str(result.place)}
