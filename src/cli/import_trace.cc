#include "cli/import_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "cli/common.h"
#include "simulation/simulation.h"
#include "workload/public_traces.h"
#include "workload/sacct.h"
#include "workload/swf.h"

namespace monkeytree {
namespace {

constexpr uint64_t kMaxLogBytes = uint64_t{2} << 30;
constexpr int kMaxGpus = 1 << 20;
constexpr int kMaxGpusPerNode = 1024;
constexpr int64_t kMaxSeed = 999'999'999'999'999'999;
constexpr int kNodesPerRack = 8;

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree import trace --format sacct march.txt -o trace.csv\n"
    "  monkeytree import trace --format acme trace_seren.csv --gpus 2048 -o trace.csv\n"
    "  monkeytree simulate scenario.yaml --trace trace.csv\n"
    "\n"
    "Formats: swf (Standard Workload Format), sacct (`sacct -a -X --parsable2`), and\n"
    "the public traces acme, helios, philly, alibaba. No log names a model: each job\n"
    "gets one of the catalogue by its size, drawn with the seed; its iterations are\n"
    "its run time / the ideal time of one at 400 Gb/s. What is left out is counted\n"
    "on standard error. More: docs/workload.md.";

struct TraceArguments {
  std::string format, file, output;
  int gpus = 1024, gpus_per_node = 8;
  int64_t seed = 1;
};

std::optional<ImportedTrace> import_as(const std::string& format, std::string_view text,
                                       std::string_view file, const ImportOptions& options,
                                       Diagnostics& diagnostics) {
  if (format == "swf") return import_swf(text, file, options, diagnostics);
  if (format == "sacct") return import_sacct(text, file, options, diagnostics);
  return import_public(*public_trace(format), text, file, options, diagnostics);
}

/// A line of counts a line of ours, each with the file's name.
std::string counts_text(const std::string& file, const ImportCounts& counts) {
  std::string out;
  const std::string text = counts.text();
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    out += file + ": " + text.substr(at, end - at);
    at = end;
  }
  return out;
}

int run_import_trace(const TraceArguments& arguments) {
  Scenario scenario;  // whose ideal times count: no job is larger than its cluster
  scenario.fabric.gpus = arguments.gpus;
  scenario.fabric.gpus_per_node = arguments.gpus_per_node;
  scenario.fabric.gpus_per_rack = kNodesPerRack * arguments.gpus_per_node;
  scenario.fabric.spines = std::min(scenario.fabric.spines, scenario.fabric.gpus_per_rack);
  ImportOptions options;
  options.cluster_gpus = arguments.gpus;
  options.gpus_per_node = arguments.gpus_per_node;
  options.seed = static_cast<uint64_t>(arguments.seed);
  options.iteration_us = [&](const Model& model, int gpus) {
    return ideal_iteration(scenario, model, gpus);
  };
  const std::string file = printable(arguments.file);
  Diagnostics diagnostics;
  std::optional<ImportedTrace> imported;
  const absl::StatusOr<std::string> text = read_file(arguments.file, kMaxLogBytes);
  if (text.ok()) {
    imported = import_as(arguments.format, *text, file, options, diagnostics);
  } else {
    diagnostics.error(file, 0, "", std::string(text.status().message()));
  }
  print_findings(diagnostics);
  if (!imported) return kExitBadInput;
  std::fputs(counts_text(file, imported->counts).c_str(), stderr);
  if (imported->trace.empty()) {
    print_error("no job of the log can be used");
    return kExitBadInput;
  }
  return write_result(arguments.output, trace_csv(imported->trace), kExitDone);
}

}  // namespace

void add_import_trace(CLI::App& import, int& exit_code) {
  const auto arguments = std::make_shared<TraceArguments>();
  CLI::App& command =
      add_command(import, "trace", "a log of a real cluster's jobs to a trace", kExamples);
  command.add_option("--format", arguments->format, "swf, sacct, acme, helios, philly or alibaba")
      ->required()
      ->check(
          CLI::IsMember({"swf", "sacct", "acme", "helios", "philly", "alibaba"}).description(""))
      ->type_name("NAME");
  command.add_option("FILE", arguments->file, "the log; - is standard input")
      ->required()
      ->type_name("");
  command
      .add_option("--gpus", arguments->gpus, "GPUs of the cluster; larger jobs are left out (1024)")
      ->check(CLI::Range(1, kMaxGpus).description(""))
      ->type_name("N");
  command
      .add_option("--gpus-per-node", arguments->gpus_per_node,
                  "GPUs of a node; jobs are rounded up to whole ones, smaller ones left out (8)")
      ->check(CLI::Range(1, kMaxGpusPerNode).description(""))
      ->type_name("N");
  command.add_option("--seed", arguments->seed, "of the draw of models (1)")
      ->check(CLI::Range(int64_t{0}, kMaxSeed).description(""))
      ->type_name("N");
  command.add_option("-o,--output", arguments->output, "write the trace here")->type_name("FILE");
  command.callback([arguments, &exit_code] {
    if (arguments->gpus % arguments->gpus_per_node != 0) {
      print_error(fmt::format("--gpus {}: not whole nodes, expected a multiple of {}",
                              arguments->gpus, arguments->gpus_per_node));
      exit_code = kExitBadInput;
      return;
    }
    exit_code = run_import_trace(*arguments);
  });
}

}  // namespace monkeytree
