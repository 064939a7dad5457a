"""Built-in devices, shorthands, and this machine."""

import os
from pathlib import Path

import numpy as np
import pytest

from ropewalk.config.load import ConfigError
from ropewalk.plan.cluster import Cluster
from ropewalk.planner.case.hardware import builtin, builtin_names, cluster, read_cluster
from ropewalk.planner.case.machine import this_machine, visible_gpus
from ropewalk.records.errors import InputError

KNOWN = {name: builtin(name) for name in builtin_names()}


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_device_is_one_node_with_honest_figures(name: str) -> None:
    found = builtin(name)
    (group,) = found.groups
    gpu = group.gpu
    assert group.nodes == 1 and {"bf16", "fp32"} <= set(gpu.flops)
    assert gpu.flops["bf16"] == gpu.flops["fp16"] > gpu.flops["tf32"] >= gpu.flops["fp32"]
    assert "price assumed" in gpu.source and gpu.dollars_source == "assumed"
    assert gpu.dollars_range and gpu.dollars_per_hour
    assert gpu.dollars_range[0] < gpu.dollars_per_hour < gpu.dollars_range[1]
    assert found.between_bytes_per_second <= group.inside_bytes_per_second < gpu.memory_bytes_per_second
    assert found.between_latency_seconds >= group.inside_latency_seconds


def test_the_devices_of_the_issue_are_there_under_their_usual_names() -> None:
    assert set(builtin_names()) == {"a100", "a100-reference", "h100", "h200", "b200", "l4", "rtx4090"}
    assert builtin("A100-80G") == builtin("a100") and builtin("RTX 4090") == builtin("4090") == builtin("rtx4090")


def test_dense_figures_not_those_with_sparsity() -> None:
    dense = {"a100": 312, "h100": 989, "h200": 989, "b200": 2250, "l4": 121, "rtx4090": 165}
    assert {name: builtin(name).groups[0].gpu.flops["bf16"] / 1e12 for name in dense} == dense
    assert round(builtin("a100").groups[0].gpu.balance("bf16")) == 153
    assert builtin("a100-reference").groups[0].gpu.balance("bf16") == 156


@pytest.mark.parametrize(
    ("name", "nodes", "each"),
    [
        ("32xa100", 4, 8),
        ("8xh100", 1, 8),
        ("2xa100", 1, 2),
        ("4x8xh100", 4, 8),
        ("3x4xl4", 3, 4),
        ("a100", 1, 8),
        ("16XA100-80g", 2, 8),
        ("1xrtx4090", 1, 1),
        ("4096xh100", 512, 8),
    ],
)
def test_shorthands(name: str, nodes: int, each: int) -> None:
    found = cluster(name)
    (group,) = found.groups
    assert (found.name, group.nodes, group.gpus_per_node) == (name, nodes, each)


def test_several_kinds_are_joined_by_the_slowest_network() -> None:
    found, fast, slow = cluster("16xh100 + 8xl4"), builtin("h100"), builtin("l4")
    assert [(g.gpu.name, g.gpus) for g in found.groups] == [("H100 SXM", 16), ("L4", 8)]
    assert found.between_bytes_per_second == slow.between_bytes_per_second < fast.between_bytes_per_second
    assert found.between_latency_seconds == slow.between_latency_seconds > fast.between_latency_seconds


def test_a_file_may_give_its_own_price_for_a_built_in_device(tmp_path: Path) -> None:
    text = (
        'name = "mine"\nbetween_bytes_per_second = 1e10\n[[group]]\nnodes = 1\ngpus_per_node = 8\n'
        "inside_bytes_per_second = 1e11\nhost_bytes_per_second = 1e10\n"
        'gpu = { name = "h100", dollars_per_hour = 2.5 }\n'
    )
    (tmp_path / "c.toml").write_text(text)
    gpu = read_cluster(tmp_path / "c.toml").groups[0].gpu
    assert (gpu.dollars_per_hour, gpu.dollars_range, gpu.dollars_source) == (2.5, None, "given")
    assert gpu.flops == builtin("h100").groups[0].gpu.flops
    (tmp_path / "c.toml").write_text(text.replace("inside_bytes", "inside_byte"))
    with pytest.raises(ConfigError, match=r"c\.toml: unknown key 'inside_byte_per_second'"):
        read_cluster(tmp_path / "c.toml")


# --- this machine ---------------------------------------------------------------------------------


def driver(folder: Path, *models: str) -> Path:
    """A folder of the form in which a driver shows its devices."""
    for number, model in enumerate(models):
        (folder / f"0000:{number:02x}:00.0").mkdir(parents=True)
        text = f"Model: \t\t {model}\nIRQ:   \t\t 1\n"
        (folder / f"0000:{number:02x}:00.0" / "information").write_text(text)
    return folder


@pytest.fixture(autouse=True)
def all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_known_gpus_are_seen_without_torch(tmp_path: Path, model: str, name: str) -> None:
    found = this_machine(gpus=KNOWN, driver=driver(tmp_path, model, model))
    assert found.gpus == 2 and found.groups[0].gpu == builtin(name).groups[0].gpu


def test_gpus_that_are_hidden_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = driver(tmp_path, *["NVIDIA H200"] * 4)
    for chosen, count in (("0,2", 2), ("3", 1), ("", 0), ("-1", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert len(visible_gpus(folder)) == count


def test_gpus_without_figures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 of 'NVIDIA L40S', whose figures are not built in: write a cluster file"):
        this_machine(gpus=KNOWN, driver=driver(tmp_path / "odd", "NVIDIA L40S", "NVIDIA L40S"))
    with pytest.raises(InputError, match="GPUs of several kinds"):
        this_machine(gpus=KNOWN, driver=driver(tmp_path / "two", "NVIDIA L4", "NVIDIA H200"))


def measured() -> Cluster:
    return this_machine(gpus=KNOWN, driver=Path("no/driver"))


def test_cores_are_measured_once() -> None:
    found = measured()
    gpu = found.groups[0].gpu
    assert found.gpus == len(os.sched_getaffinity(0)) and gpu.source.startswith("measured")
    assert 1e8 < gpu.flops["fp32"] < 1e13 and 1e7 < gpu.memory_bytes_per_second < 1e12
    assert found.gpus * gpu.memory_bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert measured() is found
    with pytest.raises(InputError, match="'CPU core' has no FLOP/s for 'bf16': choose one of fp32"):
        found.check_dtype("bf16")


def test_measuring_leaves_the_global_generator_alone() -> None:
    before = np.random.get_state()[1]
    measured()
    assert np.array_equal(before, np.random.get_state()[1])


def test_the_name_is_known() -> None:
    assert cluster("this-machine").name == "this-machine"
