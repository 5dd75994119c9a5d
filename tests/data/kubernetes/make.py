#!/usr/bin/env python3
"""Writes kinds.json: a cluster of 6 racks of 4 nodes with a job of every kind that is known, its
objects in the shapes that each project documents, as `kubectl get ... -A -o json` prints them."""

import json
import os

items = []


def add(api, kind, name, space=None, labels=None, annotations=None, owner=None, **fields):
    meta = {"name": name, "uid": f"uid-{kind}-{name}".lower()}
    if space:
        meta["namespace"] = space
    if labels:
        meta["labels"] = labels
    if annotations:
        meta["annotations"] = annotations
    if owner:
        owner_api, owner_kind, owner_name = owner
        meta["ownerReferences"] = [{
            "apiVersion": owner_api, "kind": owner_kind, "name": owner_name, "controller": True,
            "blockOwnerDeletion": True, "uid": f"uid-{owner_kind}-{owner_name}".lower()}]
    items.append({"apiVersion": api, "kind": kind, "metadata": meta, **fields})


def node(number):
    rack = (number - 1) // 4
    add("v1", "Node", f"gpu-{number}", labels={
        "kubernetes.io/hostname": f"gpu-{number}",
        "topology.kubernetes.io/zone": "z1",
        "node.kubernetes.io/instance-type": "h200.8x",
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "fabric.topograph.run/tier-0": f"leaf-{rack % 3}",
        "fabric.topograph.run/tier-1": f"spine-{rack // 3}",
    }, spec={"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        status={"allocatable": {"cpu": "190", "memory": "2000Gi", "nvidia.com/gpu": "8"},
                "capacity": {"cpu": "192", "memory": "2048Gi", "nvidia.com/gpu": "8"},
                "conditions": [{"type": "MemoryPressure", "status": "False"},
                               {"type": "Ready", "status": "True"}]})


def pod(name, on, owner=None, labels=None, annotations=None, gpus=8):
    gpu = {"nvidia.com/gpu": str(gpus)}
    add("v1", "Pod", name, "ml", labels, annotations, owner,
        spec={"nodeName": f"gpu-{on}",
              "containers": [{"name": "train", "image": "train:1",
                              "resources": {"limits": gpu, "requests": gpu}}],
              "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
        status={"phase": "Running", "startTime": "2026-11-30T12:00:00Z",
                "conditions": [{"type": "Ready", "status": "True"}]})


COMMENT = "monkeytree/comment"

for number in range(1, 25):
    node(number)
add("v1", "Node", "control-1", labels={"kubernetes.io/hostname": "control-1"}, spec={},
    status={"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]})

# An indexed Job: completion indices as annotations and labels.
add("batch/v1", "Job", "llama", "ml", annotations={COMMENT: "dp=3,tp=8"},
    spec={"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimit": 6},
    status={"active": 3, "ready": 3})
for index, on in enumerate([1, 2, 5]):
    key = "batch.kubernetes.io/job-completion-index"
    pod(f"llama-{index}-abcde", on, ("batch/v1", "Job", "llama"),
        {"job-name": "llama", "batch.kubernetes.io/job-name": "llama", key: str(index)},
        {key: str(index)})

# A StatefulSet.
add("apps/v1", "StatefulSet", "vision", "ml", annotations={COMMENT: "dp=2,tp=8"},
    spec={"replicas": 2, "serviceName": "vision"})
for index, on in enumerate([3, 9]):
    pod(f"vision-{index}", on, ("apps/v1", "StatefulSet", "vision"),
        {"statefulset.kubernetes.io/pod-name": f"vision-{index}",
         "apps.kubernetes.io/pod-index": str(index)})

# A JobSet of two jobs of two pods.
add("jobset.x-k8s.io/v1alpha2", "JobSet", "mixtral", "ml", annotations={COMMENT: "dp=2,tp=8,pp=2"},
    spec={"replicatedJobs": [{"name": "workers", "replicas": 2}],
          "failurePolicy": {"maxRestarts": 3}})
for job in range(2):
    name = f"mixtral-workers-{job}"
    marks = {"jobset.sigs.k8s.io/jobset-name": "mixtral",
             "jobset.sigs.k8s.io/replicatedjob-name": "workers",
             "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
             "jobset.sigs.k8s.io/job-index": str(job)}
    add("batch/v1", "Job", name, "ml", marks, marks,
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "mixtral"),
        spec={"completionMode": "Indexed", "parallelism": 2, "backoffLimit": 0,
              "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [
                  {"type": "DisruptionTarget", "status": "True"}]}]}})
    for index in range(2):
        key = "batch.kubernetes.io/job-completion-index"
        pod(f"{name}-{index}-xyz", [[6, 10], [7, 13]][job][index], ("batch/v1", "Job", name),
            {**marks, key: str(index)}, {**marks, key: str(index)})

# A PyTorchJob.
add("kubeflow.org/v1", "PyTorchJob", "bert", "ml", annotations={COMMENT: "rings=8"},
    spec={"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}})
for kind, index, on in [("master", 0, 14), ("worker", 0, 17), ("worker", 1, 18)]:
    pod(f"bert-{kind}-{index}", on, ("kubeflow.org/v1", "PyTorchJob", "bert"),
        {"training.kubeflow.org/job-name": "bert", "training.kubeflow.org/replica-type": kind,
         "training.kubeflow.org/replica-index": str(index),
         "training.kubeflow.org/operator-name": "pytorchjob-controller"})

# A LeaderWorkerSet of one group, which would restart as a whole.
add("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve", "ml",
    spec={"replicas": 1, "leaderWorkerTemplate": {
        "size": 2, "restartPolicy": "RecreateGroupOnPodRestart"}})
for index, on in enumerate([11, 15]):
    name = "serve-0" if index == 0 else f"serve-0-{index}"
    pod(name, on, ("apps/v1", "StatefulSet", "serve" if index == 0 else "serve-0"),
        {"leaderworkerset.sigs.k8s.io/name": "serve",
         "leaderworkerset.sigs.k8s.io/group-index": "0",
         "leaderworkerset.sigs.k8s.io/worker-index": str(index)},
        {"leaderworkerset.sigs.k8s.io/size": "2"})

# A Volcano Job.
add("batch.volcano.sh/v1alpha1", "Job", "dlrm", "ml", annotations={COMMENT: "rings=1"},
    spec={"minAvailable": 2, "schedulerName": "volcano", "policies": [
        {"event": "TaskCompleted", "action": "CompleteJob"}],
        "tasks": [{"name": "ps", "replicas": 1}, {"name": "worker", "replicas": 1}]})
for task, on in [("ps", 19), ("worker", 21)]:
    marks = {"volcano.sh/job-name": "dlrm", "volcano.sh/job-namespace": "ml",
             "volcano.sh/task-spec": task}
    pod(f"dlrm-{task}-0", on, ("batch.volcano.sh/v1alpha1", "Job", "dlrm"), marks,
        {**marks, "volcano.sh/task-index": "0", "scheduling.k8s.io/group-name": "dlrm"})

# A Kueue pod group.
for index, on in enumerate([20, 22]):
    pod(f"group-{index}", on, None,
        {"kueue.x-k8s.io/queue-name": "user", "kueue.x-k8s.io/managed": "true",
         "kueue.x-k8s.io/pod-group-name": "group",
         "kueue.x-k8s.io/pod-group-pod-index": str(index)},
        {"kueue.x-k8s.io/pod-group-total-count": "2", COMMENT: "rings=1"})
add("kueue.x-k8s.io/v1beta1", "Topology", "default", spec={"levels": [
    {"nodeLabel": "fabric.topograph.run/tier-1"}, {"nodeLabel": "fabric.topograph.run/tier-0"},
    {"nodeLabel": "kubernetes.io/hostname"}]})

# A kind that is not known, in a part of a node.
pod("ray-worker-abc", 24, ("ray.io/v1", "RayCluster", "ray"), {"ray.io/node-type": "worker"},
    gpus=4)

with open(os.path.join(os.path.dirname(__file__), "kinds.json"), "w", encoding="utf-8") as out:
    listed = {"apiVersion": "v1", "items": items, "kind": "List",
              "metadata": {"resourceVersion": ""}}
    json.dump(listed, out, indent=1, sort_keys=True)
    out.write("\n")
