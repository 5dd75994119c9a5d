#pragma once

#include <fmt/format.h>

#include <string>

/// Objects of Kubernetes as tests write them, in the shapes that its documents give.
namespace monkeytree {

struct TestNode {
  std::string name;
  std::string rack = "a";
  int gpus = 8;
  std::string labels = {};  ///< further ones: `"k": "v"`
  std::string spec = {};    ///< further fields: `"unschedulable": true`
  std::string ready = "True";
};

inline std::string node_object(const TestNode& node) {
  std::string labels = fmt::format(R"("kubernetes.io/hostname": "{}")", node.name);
  if (!node.rack.empty()) labels += fmt::format(R"(, "rack": "{}")", node.rack);
  if (!node.labels.empty()) labels += ", " + node.labels;
  return fmt::format(
      R"({{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{}", "labels": {{{}}}}}, )"
      R"("spec": {{{}}}, "status": {{"allocatable": {{"nvidia.com/gpu": "{}"}}, )"
      R"("conditions": [{{"type": "Ready", "status": "{}"}}]}}}})",
      node.name, labels, node.spec, node.gpus, node.ready);
}

struct TestPod {
  std::string name;
  std::string node;
  std::string owner_kind = "StatefulSet", owner_api = "apps/v1", owner = "s";
  int gpus = 8;
  std::string labels = {}, annotations = {};
  std::string spec = {};  ///< further fields
  std::string meta = {};  ///< further fields
  std::string phase = "Running";
};

inline std::string pod_object(const TestPod& pod) {
  std::string meta =
      fmt::format(R"("name": "{}", "namespace": "t", "uid": "u-{}")", pod.name, pod.name);
  if (!pod.owner_kind.empty()) {
    meta += fmt::format(R"(, "ownerReferences": [{{"kind": "{}", "apiVersion": "{}", )"
                        R"("name": "{}", "controller": true}}])",
                        pod.owner_kind, pod.owner_api, pod.owner);
  }
  meta += fmt::format(R"(, "labels": {{{}}}, "annotations": {{{}}})", pod.labels, pod.annotations);
  if (!pod.meta.empty()) meta += ", " + pod.meta;
  std::string spec = fmt::format(
      R"("containers": [{{"name": "c", "resources": {{"limits": {{"nvidia.com/gpu": {}}}}}}}])",
      pod.gpus);
  if (!pod.node.empty()) spec += fmt::format(R"(, "nodeName": "{}")", pod.node);
  if (!pod.spec.empty()) spec += ", " + pod.spec;
  return fmt::format(R"({{"apiVersion": "v1", "kind": "Pod", "metadata": {{{}}}, )"
                     R"("spec": {{{}}}, "status": {{"phase": "{}"}}}})",
                     meta, spec, pod.phase);
}

/// Any object with a namespace: `object("batch/v1", "Job", "j", R"("spec": {})")`.
inline std::string kube_object(const std::string& api, const std::string& kind,
                               const std::string& name, const std::string& fields,
                               const std::string& space = "t") {
  const std::string in = space.empty() ? "" : fmt::format(R"(, "namespace": "{}")", space);
  return fmt::format(R"({{"apiVersion": "{}", "kind": "{}", "metadata": {{"name": "{}"{}}}{}{}}})",
                     api, kind, name, in, fields.empty() ? "" : ", ", fields);
}

}  // namespace monkeytree
