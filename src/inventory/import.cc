#include "inventory/import.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "inventory/csv_fabric.h"
#include "inventory/slurm_snapshot.h"

namespace monkeytree {
namespace {

/// nullopt after an error.
std::optional<std::string> read_text(const std::string& file, Diagnostics& diagnostics) {
  absl::StatusOr<std::string> text = read_file(file);
  if (text.ok()) return *std::move(text);
  diagnostics.error(file, 0, "", std::string(text.status().message()));
  return std::nullopt;
}

/// A fault of the command line, as the program prints those.
constexpr std::string_view kUplinksOption = "monkeytree: --uplinks";

std::optional<SlurmQueue> read_jobs(const std::string& file, Diagnostics& diagnostics) {
  absl::StatusOr<InputFile> input = InputFile::open(file, kMaxSqueueBytes);
  if (!input.ok()) {
    diagnostics.error(file, 0, "", std::string(input.status().message()));
    return std::nullopt;
  }
  const ReadBytes read = [&](char* buffer, size_t bytes) { return input->read(buffer, bytes); };
  return read_squeue(read, file, diagnostics);
}

}  // namespace

std::optional<Uplinks> read_uplinks(const std::string& option, Diagnostics& diagnostics) {
  if (option.empty()) return Uplinks{};
  const std::string fault = uplinks_fault(option, UplinksForm::kNumberOrFile);
  if (is_uplink_count(option)) {
    const std::optional<int> count = parse_uplink_count(option);
    if (count) return Uplinks{true, *count, {}, {}, ""};
    diagnostics.error(kUplinksOption, 0, "", fault);
    return std::nullopt;
  }
  const absl::StatusOr<std::string> text = read_file(option);
  if (text.ok()) return parse_uplinks(*text, option, diagnostics);
  diagnostics.error(kUplinksOption, 0, "",
                    fmt::format("{} ({})", fault, std::string(text.status().message())));
  return std::nullopt;
}

std::optional<Snapshot> import_slurm(const SlurmFiles& files, Diagnostics& diagnostics) {
  int on_stdin = 0;
  for (const std::string* name : {&files.topology, &files.jobs, &files.nodes, &files.uplinks}) {
    on_stdin += *name == "-";
  }
  if (on_stdin > 1) {
    diagnostics.error("-", 0, "", "standard input can be only one of the files");
    return std::nullopt;
  }
  SlurmFacts facts;
  facts.topology_file = files.topology;
  facts.queue_file = files.jobs;
  facts.nodes_file = files.nodes;
  const ReadText read = [](const std::string& name) { return read_file(name); };
  std::optional<Topology> topology =
      read_topology(files.topology, files.topology_name, read, diagnostics);
  bool good = topology.has_value();
  if (!files.nodes.empty()) {
    const std::optional<std::string> text = read_text(files.nodes, diagnostics);
    if (text) facts.nodes = read_slurm_nodes(*text, files.nodes, diagnostics);
    good = good && facts.nodes;
  }
  std::optional<Uplinks> uplinks = read_uplinks(files.uplinks, diagnostics);
  std::optional<SlurmQueue> queue = read_jobs(files.jobs, diagnostics);
  if (!good || !uplinks || !queue) return std::nullopt;
  facts.topology = *std::move(topology);
  facts.uplinks = *std::move(uplinks);
  facts.queue = *std::move(queue);
  return build_snapshot(facts, diagnostics);
}

std::optional<Snapshot> import_slurm_fabric(const SlurmFiles& files, Diagnostics& diagnostics) {
  SlurmFacts facts;
  facts.topology_file = files.topology;
  const ReadText read = [](const std::string& name) { return read_file(name); };
  std::optional<Topology> topology =
      read_topology(files.topology, files.topology_name, read, diagnostics);
  std::optional<Uplinks> uplinks = read_uplinks(files.uplinks, diagnostics);
  if (!topology || !uplinks) return std::nullopt;
  facts.topology = *std::move(topology);
  facts.uplinks = *std::move(uplinks);
  return build_snapshot(facts, diagnostics);
}

std::optional<Snapshot> import_csv(const CsvFiles& files, Diagnostics& diagnostics) {
  const std::optional<Uplinks> uplinks = read_uplinks(files.uplinks, diagnostics);
  const std::optional<std::string> text = read_text(files.fabric, diagnostics);
  if (!uplinks || !text) return std::nullopt;
  return read_csv_fabric(*text, files.fabric, {files.host, files.rack}, *uplinks, diagnostics);
}

}  // namespace monkeytree
