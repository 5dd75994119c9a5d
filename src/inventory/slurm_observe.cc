#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "inventory/import.h"
#include "inventory/parallelism.h"
#include "inventory/slurm_scheduler.h"
#include "inventory/slurm_snapshot.h"
#include "inventory/slurm_step.h"

/// What the scheduler sees, without touching anything.
namespace monkeytree {
namespace {

absl::Status unreadable(const Diagnostics& diagnostics) {
  return absl::FailedPreconditionError(diagnostics.text());
}

}  // namespace

void SlurmScheduler::add_holds(const Books& books, const Configuration& configuration,
                               Observation& out) const {
  for (const Companion& companion : books.companions) {
    const SlurmJob& job = *companion.job;
    const SlurmJob* owner = books.job(companion.of);
    if (owner && owner->user != job.user) continue;
    if (!companion.names_worker || job.nodes.size() != 1) {
      out.findings.push_back(fmt::format(
          "job {} is a companion of {} that names no worker or holds several nodes: it was made by "
          "somebody else and is left alone",
          job.id, printable(companion.of)));
      continue;
    }
    const WorkerName worker{owner ? owner->id : companion.of, companion.group, companion.worker};
    const Hold hold{fmt::format("{}", job.number), worker, job.nodes[0]};
    (owner ? out.holds : out.orphans).push_back(hold);
    if (!owner) continue;
    if (const int64_t early = seconds_short(job, *owner); early > 0) {
      out.short_holds.push_back(hold);
      out.findings.push_back(
          fmt::format("companion {} ends {} s before its job {}, whose time limit was raised",
                      job.id, early, owner->id));
    }
  }
  if (configuration.choice.books != SlurmBooks::kMerge) return;
  for (const SlurmJob& job : books.queue.jobs) {
    if (job.completing) continue;
    for (const HeldNode& held : held_of_admin_comment(job.admin_comment)) {
      const bool has = std::find(job.nodes.begin(), job.nodes.end(), held.node) != job.nodes.end();
      if (!has) continue;
      out.holds.push_back(
          {fmt::format("{}@{}", job.id, held.node), {job.id, held.group, held.worker}, held.node});
    }
  }
}

absl::StatusOr<Observation> SlurmScheduler::observe(Deadline deadline) {
  const absl::StatusOr<Configuration> configuration = read_configuration(deadline);
  if (!configuration.ok()) return configuration.status();
  Diagnostics diagnostics;
  SlurmFacts facts;
  facts.topology_file = settings_.topology;
  facts.queue_file = "squeue";
  facts.nodes_file = "scontrol show node";
  const ReadText read = [](const std::string& name) { return read_file(name); };
  std::optional<Topology> topology =
      read_topology(settings_.topology, settings_.topology_name, read, diagnostics);
  std::optional<Uplinks> uplinks = read_uplinks(settings_.uplinks, diagnostics);
  if (!topology || !uplinks) return unreadable(diagnostics);
  facts.topology = *std::move(topology);
  facts.uplinks = *std::move(uplinks);

  // Nodes before jobs: a job that ends in between leaves a node that looks taken, not a free one
  // that is not.
  const absl::StatusOr<std::string> nodes =
      look("nodes", {"scontrol", "--oneliner", "show", "node"}, deadline);
  if (!nodes.ok()) return nodes.status();
  facts.nodes = read_slurm_nodes(*nodes, facts.nodes_file, diagnostics);
  if (!facts.nodes) return unreadable(diagnostics);
  Diagnostics said_twice;  // build_snapshot() lays the jobs out again
  absl::StatusOr<Books> books = read_books(deadline, said_twice);
  if (!books.ok()) return books.status();
  absl::StatusOr<std::vector<std::string>> standing = reservations(deadline);
  if (!standing.ok()) return standing.status();

  Observation out;
  out.reservations = *std::move(standing);
  std::map<std::string, int> gpus;
  for (const SlurmNode& node : *facts.nodes) gpus.emplace(node.name, node.gpus);
  const SlurmBooks how = configuration->choice.books;
  for (const JobLayout& layout : books->layout.jobs) {
    std::string why = why_unmovable(layout, how, configuration->config, gpus);
    if (!why.empty()) {
      facts.unmovable.insert(layout.job->id);
      out.unmovable.emplace(layout.job->id, std::move(why));
    }
    for (const std::string& node : kept_nodes(*layout.job, how)) {
      facts.pinned.emplace(layout.job->id, node);
    }
  }
  facts.queue = books->queue;
  std::optional<Snapshot> snapshot = build_snapshot(facts, diagnostics);
  if (!snapshot) return unreadable(diagnostics);
  out.snapshot = *std::move(snapshot);
  if (out.snapshot.cluster.empty()) {
    out.snapshot.cluster = configuration->config.value("ClusterName");
  }
  for (const Finding& finding : diagnostics.findings()) {
    if (finding.severity == Severity::kWarning) out.findings.push_back(finding.text());
  }
  add_holds(*books, *configuration, out);
  return out;
}

}  // namespace monkeytree
