// Jobs, and behind a line "----" nodes, of any bytes: the import refuses them with a reason or
// gives a snapshot that the reader of snapshots accepts.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "cluster/snapshot_json.h"
#include "inventory/parallelism.h"
#include "inventory/slurm_snapshot.h"

using namespace monkeytree;  // NOLINT: a program of one function

namespace {

Topology small_topology() {
  std::vector<SwitchSpec> specs;
  specs.push_back({"r1", "t", 1, "n[1-4]", {}});
  specs.push_back({"r2", "t", 2, "n[5-8]", {}});
  specs.push_back({"s", "t", 3, {}, "r[1-2]"});
  specs.push_back({"r3", "t", 4, "n9", {}});
  Diagnostics diagnostics;
  return *check_topology(std::move(specs), false, diagnostics);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Topology topology = small_topology();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t split = text.find("\n----\n");
  Diagnostics diagnostics;
  SlurmFacts facts;
  facts.topology = topology;
  facts.uplinks.given = true;
  facts.topology_file = "t";
  facts.queue_file = "q";
  facts.nodes_file = "n";
  std::optional<SlurmQueue> queue = read_squeue(bytes_of(text.substr(0, split)), "q", diagnostics);
  if (split != std::string_view::npos) {
    facts.nodes = read_slurm_nodes(text.substr(split + 6), "n", diagnostics);
  }
  if (diagnostics.has_errors() || !queue) {
    if (!diagnostics.has_errors()) std::abort();
    return 0;
  }
  size_t nodes = 0;
  for (const SlurmJob& job : queue->jobs) nodes += job.nodes.size();
  if (nodes > 20000) return 0;  // slow, and nothing new
  for (const SlurmJob& job : queue->jobs) {
    const std::vector<HeldNode> held = held_of_admin_comment(job.admin_comment);
    const std::string comment = with_ranks(job.admin_comment, {"n1", ""}, held);
    if (held_of_admin_comment(comment) != held) std::abort();
    if (ranks_of_admin_comment(comment) != "n1,-") std::abort();
  }
  facts.queue = *std::move(queue);
  const std::optional<Snapshot> snapshot = build_snapshot(facts, diagnostics);
  if (!snapshot) {
    if (!diagnostics.has_errors()) std::abort();
    return 0;
  }
  Diagnostics again;
  const std::string json = write_snapshot(*snapshot);
  if (!parse_snapshot(json, "s", again)) {
    std::fprintf(stderr, "%s%s", again.text().c_str(), json.c_str());
    std::abort();
  }
  return 0;
}
