"""Small run folders, written as the runtime writes them."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from ropewalk.monitors.config import Record
from ropewalk.monitors.lines import LineFile
from ropewalk.monitors.samples import choose
from ropewalk.monitors.sinks.jsonl import JsonlSink
from ropewalk.monitors.timeline import TimelineFile
from ropewalk.records.metric import Metric
from ropewalk.records.span import Span

CALLS = {"generate": 0.2, "score_reference": 0.1, "train_actor": 0.5}


def write_run(
    folder: Path,
    *,
    iterations: int = 12,
    samples: int = 8,
    slope: Mapping[str, float] | None = None,
    extra: Mapping[str, float] | None = None,
    prompt: str = "[ austin",
    completion: str = "austin is sunny .",
) -> Path:
    """A finished run whose metrics rise by `slope` over the run; `extra` are further metrics of every iteration."""
    folder.mkdir(parents=True, exist_ok=True)
    rises = {"reward/mean": 1.0, "score/truth/mean": 1.0, "score/reward_model/mean": 1.0, **(slope or {})}
    (folder / "recipe.toml").write_text('method = "ppo"\n\n[algorithm.kl]\nbeta = 0.1\n')
    (folder / "lineage.json").write_text(json.dumps({"model": "runs/pretrain-1@best", "parts": {"critic": "abc"}}))
    (folder / "status.json").write_text(json.dumps({"state": "finished", "reason": ""}))
    sink, kept = JsonlSink(folder / "metrics.jsonl"), LineFile(folder / "samples.jsonl")
    timeline = TimelineFile(folder / "timeline.json")
    now = 0.0
    for iteration in range(1, iterations + 1):
        spans = []
        for call, seconds in CALLS.items():
            spans.append(Span(call, f"{call}/rank0", now, now + seconds, {"iteration": iteration}))
            now += seconds
        timeline.append(spans)
        wobble = 0.01 * math.sin(iteration)
        metrics = {name: Metric.mean(rise * iteration / iterations + wobble, 1) for name, rise in rises.items()}
        metrics |= {f"time/{call}_seconds": Metric.mean(seconds, 1) for call, seconds in CALLS.items()}
        metrics |= {
            "reward/std": Metric.mean(0.5, 1),
            "kl/token": Metric.mean(0.1, 1),
            "lr/actor": Metric.mean(1e-4, 1),
        }
        metrics |= {name: Metric.mean(value, 1) for name, value in (extra or {}).items()}
        sink.write(4 * iteration, metrics, iteration=iteration, time_seconds=now)
        rewards = [math.sin(iteration + k) for k in range(samples)]
        for index, why in choose(rewards, iteration, Record(), last=iteration == iterations).items():
            kept.append(
                {
                    "iteration": iteration,
                    "kept": why,
                    "prompt": prompt,
                    "completion": completion,
                    "reward": rewards[index],
                    "scores": {"truth": float(index % 4 - 2), "judge": "abstained: no opinion"},
                    "kl": 0.5,
                    "finish": "stop",
                    "tokens": 4,
                }
            )
    for file in (sink, kept, timeline):
        file.close()
    return folder
