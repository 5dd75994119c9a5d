"""What a job that moves over files does after its pause has begun: a new process that builds the
model and the optimiser, loads their state and joins the process group. Started by state_pause.py.

    state_restart.py FILE PORT MODEL-ARGUMENTS...
"""

import os
import sys
import time

started = time.monotonic()
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../examples/training"))
import train  # noqa: E402
from monkeytree.collectives import tcp_store  # noqa: E402

path, port = sys.argv[1:3]
sys.argv = [sys.argv[0], "--out", "."] + sys.argv[3:]
options = train.arguments()
imported = time.monotonic()
store = tcp_store("127.0.0.1", int(port))
dist.init_process_group("gloo", store=store, rank=1, world_size=2)
joined = time.monotonic()
torch.manual_seed(1)
model = train.Gpt(options.words, options.width, options.layers, 4, options.length, options.dropout)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
built = time.monotonic()
if os.path.isdir(path):
    import state_files

    state = state_files.load_files(path)
else:
    state = torch.load(path)
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
loaded = time.monotonic()
print(started, imported, joined, built, loaded)
