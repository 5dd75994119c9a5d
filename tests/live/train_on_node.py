"""A rank of examples/training where the nodes of a cluster are one machine: the agent's socket is
the one of its node, its rank at the start is Slurm's."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

os.environ.setdefault("RANK", os.environ["SLURM_PROCID"])
os.environ["MONKEYTREE_AGENT_SOCKET"] = os.path.join(os.environ["MONKEYTREE_TEST_SOCKETS"],
                                                     os.environ["SLURMD_NODENAME"])
sys.path.insert(0, os.path.join(HERE, "../../examples/training"))

import train  # noqa: E402

train.main()
