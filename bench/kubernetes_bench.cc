/// What a Kubernetes cluster costs to follow: its nodes and pods, read one by one from objects as
/// large as real ones, kept in memory, and put together as a snapshot.
/// Usage: kubernetes_bench [--smoke]

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "kubernetes/objects.h"
#include "kubernetes/snapshot.h"

namespace monkeytree::bench {
namespace {

double cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-3;
}

double heap_mb() { return static_cast<double>(mallinfo2().uordblks) / (1 << 20); }

/// Text that a real object has besides what is read: owners of fields, images, conditions.
std::string filler(size_t bytes) {
  std::string out = R"("managedFields": [)";
  while (out.size() < bytes) {
    out += R"({"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": )"
           R"({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {"f:message": {}}}}}},)";
  }
  return out + "{}]";
}

std::string node(int i, const std::string& more) {
  std::string labels;
  for (int label = 0; label < 40; ++label) {
    labels += fmt::format(R"("feature.node.kubernetes.io/cpu-cpuid.FEATURE-{}": "true", )", label);
  }
  return fmt::format(
      R"({{"metadata": {{"name": "gpu-node-{:05}", "labels": {{{}"kubernetes.io/hostname": )"
      R"("gpu-node-{:05}", "nvidia.com/gpu.product": "NVIDIA-H200", )"
      R"("fabric.topograph.run/tier-0": "leaf-{}", "fabric.topograph.run/tier-1": "spine-{}"}}, {}}}, )"
      R"("status": {{"allocatable": {{"nvidia.com/gpu": "8"}}, )"
      R"("conditions": [{{"type": "Ready", "status": "True"}}]}}}})",
      i, labels, i, i / 8, i / 256, more);
}

/// Jobs of 16 nodes with a pod for each two GPUs, or as many as there are pods for.
std::string pod(int i, int node, const std::string& more) {
  const int job = node / 16;
  return fmt::format(
      R"({{"metadata": {{"name": "training-run-{}-{}-abcde", "namespace": "team-{}", )"
      R"("uid": "00000000-0000-0000-0000-{:012}", "labels": {{"batch.kubernetes.io/job-name": )"
      R"("training-run-{}", "batch.kubernetes.io/controller-uid": "0000-0000-{}", "app": "train", )"
      R"("kueue.x-k8s.io/queue-name": "main"}}, "annotations": )"
      R"({{"batch.kubernetes.io/job-completion-index": "{}", "monkeytree/comment": "rings=8"}}, )"
      R"("ownerReferences": [{{"apiVersion": "batch/v1", "kind": "Job", "name": "training-run-{}", )"
      R"("controller": true}}], {}}}, "spec": {{"nodeName": "gpu-node-{:05}", "containers": )"
      R"([{{"name": "train", "image": "registry/train:1", "resources": {{"requests": )"
      R"({{"nvidia.com/gpu": "2"}}, "limits": {{"nvidia.com/gpu": "2"}}}}}}]}}, "status": )"
      R"({{"phase": "Running", "startTime": "2026-11-30T12:00:00Z"}}}})",
      job, i, job % 50, i, job, job, i, job, more, node);
}

int run(int nodes, int pods) {
  KubeFacts facts;
  const KubeReadRules rules;
  simdjson::dom::parser parser;
  const std::string more = filler(4000);
  double bytes = 0;
  double read_ms = 0;
  double kept_mb = 0;
  const auto take = [&](KubeKind kind, const std::string& text) {
    bytes += static_cast<double>(text.size());
    const double before_mb = heap_mb();
    const double before_ms = cpu_ms();
    simdjson::dom::element object;
    if (parser.parse(text).get(object) != simdjson::SUCCESS) std::abort();
    if (facts.put(kind, object, rules).fault) std::abort();
    read_ms += cpu_ms() - before_ms;
    kept_mb += heap_mb() - before_mb;
  };
  for (int i = 0; i < nodes; ++i) take(KubeKind::kNode, node(i, more));
  const double nodes_mb = kept_mb;
  for (int i = 0; i < pods; ++i) {
    take(KubeKind::kPod, pod(i, static_cast<int>(int64_t{i} * nodes / pods), more));
  }
  for (int job = 0; job <= nodes / 16; ++job) {
    take(KubeKind::kJob, fmt::format(R"({{"metadata": {{"name": "training-run-{}", "namespace": )"
                                     R"("team-{}"}}, "spec": {{"backoffLimit": 6}}}})",
                                     job, job % 50));
  }
  KubeRackRules racks;
  racks.source = "topograph";
  Uplinks uplinks;
  uplinks.given = true;
  Diagnostics diagnostics;
  const double before_ms = cpu_ms();
  const auto built = build_kube_snapshot(facts, racks, rules, uplinks, "bench", diagnostics);
  const double build_ms = cpu_ms() - before_ms;
  if (!built || built->snapshot.nodes.size() != static_cast<size_t>(nodes)) {
    fmt::print(stderr, "{}", diagnostics.text());
    return 1;
  }
  fmt::print(
      "{} nodes, {} pods with GPUs: {:.0f} MB of objects read in {:.0f} ms ({:.1f} us each);\n"
      "  kept in {:.0f} MB (nodes {:.0f} MB); a snapshot of {} jobs in {:.0f} ms\n",
      nodes, pods, bytes / (1 << 20), read_ms, 1e3 * read_ms / (nodes + pods), kept_mb, nodes_mb,
      built->snapshot.jobs.size(), build_ms);
  return 0;
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--smoke") return monkeytree::bench::run(256, 900);
  return monkeytree::bench::run(16384, 60000);
}
