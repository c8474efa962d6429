"""The chart of a run, and what it ran on."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# matplotlib is optional, and its types are not whole.

import os
import platform
from pathlib import Path

import redis

from benchmarks.jobs.bench import Results
from benchmarks.jobs.peers import PEERS


def chart(results: Results, path: Path) -> None:
    """The rates of handing over and of draining, as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rates = results.rates
    unit = rates.get("celery") or rates["drain, celery"]
    names = sorted(rates, key=lambda name: rates[name])
    colours = ["#1f77b4" if "ours" in name else "#999999" if "bare" in name else "#d9a441" for name in names]
    figure, axes = plt.subplots(figsize=(9, 0.4 * len(names) + 1))
    bars = axes.barh(names, [rates[name] / unit for name in names], color=colours)
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set_xlabel("jobs a second, in units of one celery apply_async")
    axes.set_xscale("log")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def describe() -> str:
    """The machine and the versions."""
    with open("/proc/cpuinfo") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "?")
    found = [f"{peer.name} {peer.version}" for peer in PEERS if peer.version]
    missing = [peer.name for peer in PEERS if not peer.version]
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, load {load:.1f}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, redis-py {redis.__version__}\n{', '.join(found)}"
        + (f"\nnot installed, and left out: {', '.join(missing)}" if missing else "")
    )
