"""`ropewalk plan`: what it shows, writes and reads again, and one sentence for what cannot be planned."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ropewalk.plan.execution import ExecutionPlan
from tests.cli.commands import Command, failed

SMALL = ("plan", "--actor", "1.5b", "--cluster", "2x4xa100", "--workload", "64:64+64", "--budget", "0.3", "--gap", "2%")
SFT = ("plan", "--method", "sft", "--actor", "0.5b", "--cluster", "2xa100", "--workload", "16:64+64", "--budget", "0.1")
CASE = """
name = "a <b>bold</b> case"
method = "sft"
[models]
actor = "0.5b"
[cluster]
name = "mine </script>"
between_bytes_per_second = 25e9
[[cluster.group]]
gpu = "a100"
nodes = 1
gpus_per_node = 2
inside_bytes_per_second = 230e9
host_bytes_per_second = 25e9
[workload]
prompts = 16
prompt_tokens = 64
generated_tokens = {tokens = [32, 64], weights = [1, 3]}
"""


@pytest.fixture
def case_file(tmp_path: Path) -> Path:
    path = tmp_path / "case.toml"
    path.write_text(CASE)
    return path


def test_a_terminal_shows_calls_timeline_memory_reasons_and_baselines(ropewalk: Command) -> None:
    told = ropewalk(*SMALL, "--what-if", "--out", "plan.json")
    assert told.code == 0
    for said in (
        "above the certified bound", "dp·tp·pp", "actor_train", "one iteration of the steady state", "node 1",
        "of 72.0 GB", "no two of these can overlap", "under any order",
        "second-best choice", "longer", "symmetric", "asymmetric",
        "the network between nodes is half as fast", "(assumed)", "compile", "proof", "plan: plan.json",
    ):  # fmt: skip
        assert said in told.out, said
    plan = ExecutionPlan.from_json(Path("plan.json").read_text())
    assert set(plan.provenance) >= {"cluster", "cluster_fingerprint", "calibration", "workload", "mode", "seed", "gap"}
    assert plan.estimate_seconds is not None and plan.bound_seconds is not None
    assert f"{plan.estimate_seconds:.4g} s (estimated)" in told.out


def test_json_says_everything_and_a_written_plan_is_judged_to_the_same(ropewalk: Command) -> None:
    found = json.loads(ropewalk(*SMALL, "--json", "--out", "plan.json").out)
    assert set(found) >= {
        "case", "period_seconds", "bound_seconds", "gap", "certificate", "calls", "moves", "order", "late", "why",
        "second_best", "baselines", "memory", "timeline", "sensitivity", "search", "seconds", "plan", "cost",
    }  # fmt: skip
    assert found["gap"] == pytest.approx(found["period_seconds"] / found["bound_seconds"] - 1)
    assert {change["name"] for change in found["sensitivity"]} >= {"network_half", "answers_double", "gpus_double"}
    assert {"compile", "build", "search", "proof"} <= set(found["seconds"])
    assert ExecutionPlan.from_json(json.dumps(found["plan"])) == ExecutionPlan.from_json(Path("plan.json").read_text())
    told = ropewalk(*SMALL, "--check", "plan.json", "--json")
    checked = json.loads(told.out)
    assert told.code == 0 and checked["fits"]
    assert checked["period_seconds"] == pytest.approx(found["period_seconds"], rel=1e-9)
    assert checked["memory"] == found["memory"]


def test_plans_are_compared_side_by_side(ropewalk: Command) -> None:
    assert ropewalk(*SFT, "--out", "a.json").code == 0
    raw = json.loads(Path("a.json").read_text())
    raw["calls"]["actor_train"]["layout"] |= {"ranks": [0], "dp": 1, "tp": 1}
    Path("b.json").write_text(json.dumps(raw))
    told = ropewalk(*SFT, "--compare", "a.json", "b.json")
    assert told.code == 0
    assert re.search(r"a +b\b", told.out) and "to the fastest" in told.out and "rank 0, 1·1·1" in told.out
    found = json.loads(ropewalk(*SFT, "--compare", "a.json", "b.json", "--json").out)
    assert found["a"]["period_seconds"] < found["b"]["period_seconds"]


def test_a_plan_that_does_not_fit_is_judged_with_what_would_help(ropewalk: Command) -> None:
    words = (
        "plan",
        "--method",
        "sft",
        "--actor",
        "7b",
        "--cluster",
        "8xa100",
        "--workload",
        "64:256+256",
        "--budget",
        "0.1",
    )
    assert ropewalk(*words, "--out", "a.json").code == 0
    raw = json.loads(Path("a.json").read_text())
    raw["calls"]["actor_train"]["layout"] |= {"dp": 8, "tp": 1, "pp": 1, "shard": "none"}
    Path("b.json").write_text(json.dumps(raw))
    told = ropewalk(*words, "--check", "b.json")
    assert told.code == 3
    assert "does not fit in memory" in told.out and "fits: " in told.out and "ZeRO" in told.out
    assert json.loads(ropewalk(*words, "--check", "b.json", "--json").out)["mends"][0]["fits"]


def test_the_memory_bill_is_itemised_also_where_nothing_fits(ropewalk: Command) -> None:
    told = ropewalk(*SFT, "--memory")
    assert told.code == 0
    for said in ("actor optimizer", "always", "during actor_train", "by call, on each of its GPUs"):
        assert said in told.out, said
    few = (
        "plan",
        "--method",
        "sft",
        "--actor",
        "7b",
        "--cluster",
        "1xa100",
        "--workload",
        "8:64+64",
        "--budget",
        "0.1",
    )
    told = ropewalk(*few, "--memory")
    assert told.code == 3
    for said in ("does not fit", "optimizer", "LoRA", "GPUs in place of 1", "fits: ", "still does not fit"):
        assert said in told.out, said
    found = json.loads(ropewalk(*few, "--memory", "--json").out)
    assert not found["fits"] and {need["call"] for need in found["needs"]} == {"actor_train"}
    assert json.loads(ropewalk(*SFT, "--memory", "--json").out)["memory"][0]["fits"]


class Page(HTMLParser):
    """Tags and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.asks: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.asks += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_holds_all_of_it_and_asks_the_network_for_nothing(ropewalk: Command, case_file: Path) -> None:
    told = ropewalk("plan", case_file, "--budget", "0.1", "--html", "page.html")
    assert told.code == 0 and "page: page.html" in told.out
    text = Path("page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("script") == 3 and "b" not in page.tags
    assert "a <b>bold</b> case" in page.text and "mine </script>" in page.text
    assert page.asks == []
    assert "default-src &#39;none&#39;" in text
    for heading in ("Timeline", "Why this plan", "Memory", "Comparison", "What if", "Provenance", "Certificate"):
        assert heading in page.text
    charts = json.loads(text.partition('id="charts">')[2].partition("</script>")[0])
    assert set(charts) == {"timeline", "parts", "memory", "baselines", "sensitivity"}
    (usable,) = [trace for trace in charts["memory"]["data"] if trace["name"] == "usable"]
    assert usable["x"] == [72.0]


def test_a_case_file_gives_way_to_the_command_line(ropewalk: Command, case_file: Path) -> None:
    words = ("plan", case_file, "--budget", "0.1", "--json")
    found = json.loads(ropewalk(*words).out)["case"]
    assert found["cluster"]["gpus"] == 2 and found["workload"] == "16x1:64+56, bf16"
    other = json.loads(ropewalk(*words, "--cluster", "4xh100", "--workload", "8:32+32", "--actor", "1.5b").out)["case"]
    assert other["cluster"]["gpus"] == 4 and other["workload"] == "8x1:32+32, bf16"
    assert other["models"]["actor"]["parameters"] > 2 * found["models"]["actor"]["parameters"]


def test_a_recipe_is_planned_for_this_machine_or_for_another(ropewalk: Command) -> None:
    found = json.loads(ropewalk("plan", "city-pretrain", "--budget", "0.1", "--json").out)
    assert found["case"]["cluster"]["name"] == "this-machine" and found["case"]["workload"].endswith("fp32")
    words = ("plan", "city-ppo", "--actor", "0.5b", "--cluster", "2xa100", "--budget", "0.1", "--json")
    found = json.loads(ropewalk(*words).out)
    assert found["case"]["workload"].startswith("64x1:128+15, 4 epochs") or found["case"]["workload"].startswith(
        "64x1:"
    )
    assert any("max_new_tokens" in note for note in found["case"]["notes"])
    assert {"reward_model", "critic_train"} <= set(found["calls"])


@pytest.mark.parametrize("mode", ["one-step-off", "streaming"])
def test_other_modes_and_robust_plans_say_what_they_are(ropewalk: Command, mode: str) -> None:
    words = ("plan", "--method", "distillation", "--actor", "0.5b", "--role", "teacher=1.5b", "--cluster", "2xa100")
    told = ropewalk(*words, "--workload", "16:32+32", "--mode", mode, "--robust", "--budget", "0.1")
    assert (
        told.code == 0 and f"{mode}, calibration default" in told.out and "with every time off by up to 10%" in told.out
    )


def change(path: Path, old: str, new: str) -> Path:
    path.write_text(path.read_text().replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("inside_bytes_per_second = 230e9", "inside_bytes_per_second = -230e9", "greater than 0"),
        ("tokens = [32, 64], weights = [1, 3]", "tokens = [], weights = []", "at least one length"),
        ("gpus_per_node = 2", "gpus_per_node = 0", "gpus_per_node must be at least 1"),
        ("prompts = 16", "promts = 16", "prompts"),
        ('actor = "0.5b"', 'actor = "0.4b"', "did you mean '0.5b'"),
        ('method = "sft"', 'method = "stf"', "did you mean 'sft'"),
        ("[workload]", "[space]\ntp = [3]\n[workload]", "tp = 3 divides no model's attention heads"),
    ],
)
def test_a_wrong_case_file_is_one_sentence(ropewalk: Command, case_file: Path, old: str, new: str, said: str) -> None:
    failed(ropewalk("plan", change(case_file, old, new)), 2, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "ropewalk plan --method ppo --actor 7b"),
        (("--actor", "7b"), "models and a cluster"),
        (("city-pretrian",), "did you mean city-pretrain"),
        (("city-lab",), "a chain of stages has a plan for each: plan one of city-pretrain"),
        (("city-pairs",), "trains nothing"),
        (("city-ppo", "--method", "grpo"), "says its own method"),
        (("gone.toml",), "there is no file gone.toml"),
        (("a.toml", "b.toml"), "one recipe or case"),
        (("plan.json",), "--check plan.json"),
        (("--compare",), "needs plan files"),
        (("--actor", "70b", "--cluster", "8xa100", "--budget", "0.1"), "needs at least 141 GB on each GPU"),
        (("--actor", "7b", "--cluster", "0xa100"), "no GPU"),
        (("--actor", "7b", "--cluster", "8xa10"), "did you mean 'a100'"),
        (("--actor", "7b", "--cluster", "8xa100", "--role", "critc=7b"), "did you mean 'critic'"),
        (("--actor", "7b", "--cluster", "8xa100", "--role", "critic"), "write --role reward=34b"),
        (("--actor", "7b", "--cluster", "8xa100", "--mode", "synchron"), "did you mean 'synchronous'"),
        (("--actor", "7b", "--cluster", "8xa100", "--calibration", "defalt"), "default"),
        (("--actor", "7b", "--cluster", "8xa100", "--workload", "many"), "is not understood"),
        (("--actor", "7b", "--cluster", "8xa100", "--gap", "much"), "--gap is a share"),
        (("--actor", "7b", "--cluster", "8xa100", "--budget", "0"), "--budget is a number of seconds above 0"),
        (("--actor", "7b", "--cluster", "8xa100", "--out", "gone/plan.json"), "its folder gone does not exist"),
        (("--actor", "7b", "--cluster", "8xa100", "--memory", "--out", "x.json"), "--out goes with a plan"),
        (("--actor", "7b", "--cluster", "8xa100", "--check", "gone.json"), "gone.json cannot be read"),
        (("--actor", "7b", "--cluster", "8xa100", "--profile", "gone.json"), "gone.json cannot be used"),
        (("--actor", "7b", "--cluster", "8xa100", "--check", "x.json", "x.json", "--compare"), "give one of them"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(ropewalk: Command, words: tuple[str, ...], said: str) -> None:
    failed(ropewalk("plan", *words), 2, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ('{"format": 9}', "is not of format 1"),
        ('{"format": 1, "calls": {"actor_train": {"layout": {"ranks": [0, 1]}}}}', "needs dp x tp x pp distinct ranks"),
        ('{"format": 1, "calls": {"train": {"layout": {"ranks": [0]}}}, "order": ["actor_train"]}', "did you mean"),
    ],
)
def test_a_damaged_plan_is_named_with_what_is_wrong(ropewalk: Command, text: str, said: str) -> None:
    Path("plan.json").write_text(text)
    told = ropewalk(*SFT, "--check", "plan.json")
    failed(told, 2, "plan.json", said, sentences=len(told.err.splitlines()))


def test_a_plan_for_another_cluster_is_refused(ropewalk: Command) -> None:
    assert ropewalk(*SFT, "--out", "plan.json").code == 0
    told = ropewalk("plan", "--method", "sft", "--actor", "0.5b", "--cluster", "4xa100", "--check", "plan.json")
    failed(told, 2, "was made for cluster '2xa100'", "and here is '4xa100'")


def test_help_waits_for_no_compiler_and_planning_for_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from ropewalk.cli.app import run; assert run(sys.argv[2:]) == 0; "
        "bad = [m for m in sys.argv[1].split(',') if m in sys.modules]; sys.exit(', '.join(bad) or 0)"
    )
    for heavy, words in (
        ("torch,transformers,numba,plotly", ["plan", "--help"]),
        ("torch,transformers", ["plan", "city-pretrain", "--budget", "0.05"]),
    ):
        done = subprocess.run([sys.executable, "-c", code, heavy, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_memory_of_a_gpu_that_holds_nothing_is_shown_too(ropewalk: Command, strange: Path) -> None:
    words = ("plan", "--method", "sft", "--actor", strange, "--cluster", "2xa100", "--workload", "1:8+8")
    told = ropewalk(*words, "--set", "space.tp=[1]", "--set", "space.pp_max=1", "--memory")
    assert told.code == 0 and ": 0 GB of 72 GB usable: fits" in told.out


def test_a_plan_that_is_robust_shows_its_worst_case_and_that_of_the_fastest(ropewalk: Command) -> None:
    told = ropewalk(*SMALL, "--robust", "--json")
    robust, period = json.loads(told.out)["robust"], json.loads(told.out)["period_seconds"]
    assert robust["chosen"]["period_seconds"] == pytest.approx(1.1 * period)
    assert robust["chosen"]["regret"] <= robust["fastest"]["regret"]
    assert robust["fastest"]["period_seconds"] <= robust["chosen"]["period_seconds"]
    assert json.loads(ropewalk(*SMALL, "--json").out)["robust"] is None


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A model of a family that nobody knows, without weights."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "num_hidden_layers": 2}
    path = tmp_path / "strange.json"
    path.write_text(json.dumps({**sizes, "model_type": "novel", "vocab_size": 99, "max_position_embeddings": 64}))
    return path


@pytest.mark.parametrize(
    "how", [("plan", "--memory"), ("plan",), ("cost",), ("advise",), ("advise", "--rules"), ("check",), ("compare",)]
)
def test_a_family_that_is_not_known_is_told_wherever_its_figures_are(
    ropewalk: Command, strange: Path, how: tuple[str, ...]
) -> None:
    """Fault of the kind: figures of an architecture that the arithmetic does not know, without a word."""
    plan = (
        "plan",
        "--method",
        "sft",
        "--actor",
        strange,
        "--cluster",
        "2xa100",
        "--workload",
        "8:8+8",
        "--budget",
        "0.1",
    )
    if how in (("check",), ("compare",)):
        assert ropewalk(*plan, "--out", "plan.json").code == 0
    words = {
        "plan": (*plan, *how[1:]),
        "cost": ("cost", "sft", "--model", strange, "--tokens", "1M"),
        "advise": ("advise", "--model", strange, "--cluster", "2xa100", "--verifiable", *how[1:]),
        "check": (*plan, "--check", "plan.json"),
        "compare": (*plan, "--compare", "plan.json"),
    }[how[0]]
    for told in (ropewalk(*words), ropewalk(*words, "--json")):
        assert told.code == 0
        assert "family 'novel' is not known here and counted as a Llama: " in " ".join(told.out.split())
    strange.write_text(strange.read_text().replace('"novel"', '"novel", "mamba_d_state": 16'))
    failed(
        ropewalk(*words), 2, "strange.json: a model of family 'novel' has layers that are no attention", "give a size"
    )


def test_a_plan_made_for_something_else_is_judged_and_told(ropewalk: Command) -> None:
    assert ropewalk(*SFT, "--out", "plan.json").code == 0
    other = (*SFT, "--workload", "32:64+64", "--check", "plan.json")
    (note,) = json.loads(ropewalk(*other, "--json").out)["notes"]
    assert note.startswith("the plan was made for workload '16x1:64+64, bf16', and is judged for '32x1:64+64, bf16'")
    assert note in " ".join(ropewalk(*other).out.split())
    assert json.loads(ropewalk(*SFT, "--check", "plan.json", "--json").out)["notes"] == []
    raw = json.loads(Path("plan.json").read_text())
    Path("faster.json").write_text(json.dumps({**raw, "estimate_seconds": 1e-3}))
    (note,) = json.loads(ropewalk(*SFT, "--check", "faster.json", "--json").out)["notes"]
    assert note.startswith("the file says 0.001 s an iteration")


def hand(**layout: object) -> str:
    """A plan of one call."""
    at = {"ranks": [0, 1], "dp": 2, **layout}
    return json.dumps({"format": 1, "calls": {"actor_train": {"layout": at}}, "order": ["actor_train"]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (hand(ranks=[1, 2]), "placed on ranks 1 to 2, and cluster '2xa100' has 0 to 1"),
        (hand(ranks=[-1, 0]), "placed on ranks -1 to 0"),
        (hand(ranks=[10**30], dp=1), "and cluster '2xa100' has 0 to 1"),
        (hand(ranks=[0, 0]), "needs dp x tp x pp distinct ranks"),
        (hand(tp=2), "needs dp x tp x pp distinct ranks"),
        (hand(ranks=[1, 0]), "not consecutive"),
        (hand(dp=1, tp=1, pp=1), "needs dp x tp x pp distinct ranks"),
        (hand(ep=2), "has ep 2, and its model has no experts: give 1"),
        (hand(shard="half"), "give one of none, optimizer, full"),
        (hand(dp=0), "give a whole number of at least 1"),
        (hand(dp="2"), "give a whole number of at least 1"),
        (hand(ranks="0-1"), "give a list of whole numbers"),
        (hand(zp=2), "has a key 'zp', which means nothing: did you mean"),
        (hand().replace('"actor_train"]', '"actor_train", "actor_train"]'), "orders call 'actor_train' twice"),
        (hand().replace('"order"', '"late": ["train"], "order"'), "did you mean 'actor_train'"),
        (hand().replace('"order"', '"late": ["actor_train"], "order"'), "one that does not is actor_train"),
        (hand().replace('"order"', '"provenance": {"mode": "fast"}, "order"'), "give one of synchronous"),
    ],
)
def test_a_plan_by_hand_that_cannot_be_is_one_sentence_of_its_file(ropewalk: Command, text: str, said: str) -> None:
    Path("hand.json").write_text(text)
    failed(ropewalk(*SFT, "--check", "hand.json"), 2, "hand.json", said)
    failed(ropewalk(*SFT, "--compare", "hand.json"), 2, "hand", said)


NASTY = [
    ("--workload", "99999999999999999999999:3+3"), ("--workload", "4:99999999999999999999999+3"),
    ("--workload", "4:0+0"), ("--workload", "-5:1+1"), ("--workload", "1e3:1+1"), ("--workload", "4.5:1+1"),
    ("--workload", "nan:1+1"), ("--workload", "n\u00f6.toml"), ("--workload", "."),
    ("--cluster", "-1xa100"), ("--cluster", "0x8xa100"), ("--cluster", "8x0xa100"), ("--cluster", "1.5xa100"),
    ("--cluster", "nanxa100"), ("--cluster", "9xa100"), ("--cluster", "8xa100+"), ("--cluster", "."),
    ("--cluster", "/dev/null"), ("--cluster", "1000000xa100"), ("--cluster", "99999999999999999992xa100"),
    ("--budget", "nan"), ("--budget", "inf"), ("--budget", "-1"), ("--gap", "nan"), ("--gap", "-1%"), ("--seed", "-1"),
    ("--actor", "."), ("--actor", "/dev/null"), ("--actor", "7\u20ac"), ("--critic", "7b"), ("--role", "actor="),
    ("--profile", "."), ("--check", "."), ("--check", "/dev/null"), ("--out", "."), ("--html", "."),
    ("--set", "workload.prompts=nan"), ("--set", "workload.prompts=0"), ("--set", "space.tp=[0]"),
    ("--set", "space.shard=[]"), ("--set", "space.ep=[3]"), ("--set", "space.blocks=99"), ("--set", "a=b=c"),
]  # fmt: skip


@pytest.mark.parametrize("words", NASTY, ids=" ".join)
def test_nonsense_is_one_sentence_and_never_a_number(ropewalk: Command, words: tuple[str, str]) -> None:
    usual = {"--actor": "0.5b", "--cluster": "2xa100", "--workload": "16:8+8"}
    given = [word for pair in {**usual, words[0]: words[1]}.items() for word in pair]
    told = ropewalk("plan", "--method", "sft", *given)
    failed(told, 2, sentences=3 if words == ("--cluster", "/dev/null") else 1)
