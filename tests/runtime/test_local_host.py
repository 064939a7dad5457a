"""Ranks of one machine talk on loopback only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk.runtime.hosts.local import keep_to_this_machine

LISTENING = """
import sys, torch.distributed as dist
from ropewalk.runtime.hosts.local import keep_to_this_machine

def addresses():
    rows = [line.split() for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").read().splitlines()[1:]]
    return {row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and row[9] in own()}

def own():
    import os
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return {os.readlink(link)[8:-1] for link in links if os.path.islink(link)}

keep_to_this_machine()
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
print(*addresses())
dist.destroy_process_group()
"""


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the listening sockets are read from /proc")
def test_a_rank_listens_on_loopback_alone(tmp_path: Path) -> None:
    """A host whose name means an outside address once opened that address to everyone."""
    environment = {name: value for name, value in os.environ.items() if name != "GLOO_SOCKET_IFNAME"}
    command = [sys.executable, "-c", LISTENING, str(tmp_path / "rendezvous")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=True)
    assert done.stdout.split() and {a for a in done.stdout.split() if not a.endswith("7F")} <= {"0" * 24 + "01000000"}


def test_an_interface_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    keep_to_this_machine()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
