"""What is freed goes back to the kernel."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: what others have in use would be in the way.
PROGRAM = """
import gc, pathlib
from shared_api.process.freed_memory import give_back

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20

class Node:
    pass

gc.disable()  # as long as no collection comes by
before, nodes = resident(), []
for _ in range(200_000):
    node = Node()
    node.itself, node.text = node, bytearray(400)
    nodes.append(node)
peak = resident()
del nodes, node
left = resident()
give_back()
print(before, peak, left, resident())
"""


def test_garbage_with_cycles_goes_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    before, peak, left, rest = map(int, done.stdout.split())
    assert left > before + 50, "it stays until then"
    assert rest < before + (peak - before) // 5
