"""torch.distributed.checkpoint over arenas: what is saved is what is loaded."""

import multiprocessing
import sys
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("torch is not installed")
    sys.exit(77)

from monkeytree import StagingServer
from monkeytree.checkpoint import ArenaReader, ArenaWriter, Memory, Staging, dcp
from monkeytree.collectives import tcp_store


def save(state, place, **options):
    dcp.save_state_dict(state, ArenaWriter(place), **options)


def load(state, place, **options):
    dcp.load_state_dict(state, ArenaReader(place), **options)
    return state


def drawn(seed):
    generator = torch.Generator().manual_seed(seed)
    return {"weight": torch.randn(300, 40, generator=generator),
            "slice": torch.randn(20, 30, generator=generator)[:, 3:9],
            "half": torch.randn(17, generator=generator).to(torch.bfloat16),
            "step": torch.tensor(seed), "none": torch.empty(0, 4),
            "rest": {"lr": 0.1 * seed, "names": ["a", "b"]}}


def empty():
    return {"weight": torch.zeros(300, 40), "slice": torch.zeros(20, 6),
            "half": torch.zeros(17, dtype=torch.bfloat16), "step": torch.tensor(0),
            "none": torch.empty(0, 4), "rest": {"lr": 0.0, "names": ["", ""]}}


def of_rank(rank, port, endpoint, results):
    """Saves a tensor whose rows lie on two ranks, then loads it again."""
    from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards

    try:
        store = tcp_store("127.0.0.1", port)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2)

        def sharded(own):
            return init_from_local_shards([Shard.from_tensor_and_offsets(own, [4 * rank, 0], rank)],
                                          8, 5)

        rows = torch.arange(20, dtype=torch.float32).view(4, 5) + 100 * rank
        place = Staging(endpoint, "job")
        save({"rows": sharded(rows), "both": torch.arange(3)}, place)
        own = torch.zeros(4, 5)
        loaded = load({"rows": sharded(own), "both": torch.zeros(3, dtype=torch.int64)}, place)
        results.put((rank, torch.equal(own, rows), loaded["both"].tolist()))
        dist.barrier()
    except Exception as error:
        results.put((rank, repr(error), []))
        raise


class CheckpointTest(unittest.TestCase):
    def check(self, wanted, got):
        for name, value in wanted.items():
            if torch.is_tensor(value):
                self.assertTrue(torch.equal(value, got[name]), name)
            else:
                self.assertEqual(value, got[name])

    def test_one_process(self):
        server = StagingServer.start(quota_bytes=64 << 20)
        for place in (Memory(), Staging(server.endpoints[0], "job"),
                      Staging(server.endpoints[1], "other")):
            writer = ArenaWriter(place)
            for seed in (1, 2):  # the second save takes the place of the first
                dcp.save_state_dict(drawn(seed), writer, no_dist=True)
                self.check(drawn(seed), load(empty(), place, no_dist=True))
            place.clear()
            with self.assertRaisesRegex(BaseException, "no checkpoint is held"):
                load(empty(), place, no_dist=True)
        self.assertEqual(server.used_bytes, 0)

    def test_a_full_server_says_so(self):
        server = StagingServer.start(quota_bytes=20 << 10)
        with self.assertRaisesRegex(BaseException, "free"):
            save(drawn(1), Staging(server.endpoints[0], "job"), no_dist=True)
        self.assertEqual(server.used_bytes, 0)

    def test_two_ranks_and_another_sharding(self):
        server = StagingServer.start(quota_bytes=64 << 20)
        store = tcp_store("127.0.0.1", 0, serve=True)
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        ranks = [context.Process(target=of_rank, args=(rank, store.port, server.endpoints[0],
                                                       results)) for rank in range(2)]
        for each in ranks:
            each.start()
        told = sorted(results.get(timeout=300) for _ in ranks)
        for each in ranks:
            each.join(300)
        self.assertEqual(told, [(0, True, [0, 1, 2]), (1, True, [0, 1, 2])])
        # One process takes up what two have saved.
        whole = load({"rows": torch.zeros(8, 5)}, Staging(server.endpoints[0], "job"),
                     no_dist=True)["rows"]
        self.assertEqual(whole[:, 0].tolist(), [0, 5, 10, 15, 100, 105, 110, 115])


if __name__ == "__main__":
    unittest.main()
