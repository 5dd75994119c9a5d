"""A model's and an optimiser's state as torch.distributed.checkpoint writes it to files."""

import torch

from monkeytree.checkpoint import dcp


def _flat(state):
    flat = {"model." + name: value for name, value in state["model"].items()}
    for index, entry in state["optimizer"]["state"].items():
        for key, value in entry.items():
            flat[f"optimizer.{index}.{key}"] = value
    flat["groups"] = state["optimizer"]["param_groups"]
    return flat


def save_files(state, path):
    dcp.save_state_dict(_flat(state), dcp.FileSystemWriter(path, sync_files=False), no_dist=True)


def load_files(path):
    reader = dcp.FileSystemReader(path)
    known = reader.read_metadata().state_dict_metadata
    flat = {name: torch.empty(entry.size, dtype=entry.properties.dtype)
            if hasattr(entry, "size") else None for name, entry in known.items()}
    dcp.load_state_dict(flat, reader, no_dist=True)
    state = {"model": {}, "optimizer": {"state": {}, "param_groups": flat.pop("groups")}}
    for name, value in flat.items():
        kind, rest = name.split(".", 1)
        if kind == "model":
            state["model"][rest] = value
        else:
            index, key = rest.split(".")
            state["optimizer"]["state"].setdefault(int(index), {})[key] = value
    return state
