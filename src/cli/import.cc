#include "cli/import.h"

#include <memory>
#include <optional>
#include <string>

#include "base/diagnostics.h"
#include "cli/common.h"
#include "cli/import_trace.h"
#include "cluster/snapshot_json.h"
#include "inventory/import.h"
#include "inventory/uplinks.h"
#include "kubernetes/import.h"

namespace monkeytree {
namespace {

constexpr const char* kSlurmExamples =
    "Examples:\n"
    "  squeue --json > jobs.json; scontrol show nodes --json > nodes.json\n"
    "  monkeytree import slurm --topology /etc/slurm/topology.conf --jobs jobs.json \\\n"
    "      --nodes nodes.json --uplinks 16 -o cluster.json\n"
    "  squeue --json | monkeytree import slurm --topology topology.yaml --jobs - |\n"
    "      monkeytree analyze -\n"
    "\n"
    "A job tells its parallelism in its comment: sbatch --comment dp=4,tp=8,pp=2.\n"
    "What is read, and every warning: docs/slurm.md.";

constexpr const char* kCsvExamples =
    "Examples:\n"
    "  monkeytree import csv --fabric hosts.csv --host ip --rack PSW,ASW --uplinks 8\n"
    "\n"
    "Several rack columns together name a rack: PSW,ASW gives racks such as P10/S14.";

constexpr const char* kKubernetesExamples =
    "Examples:\n"
    "  kubectl get nodes,pods,pvc,pv,pdb,jobs.batch,statefulsets -A -o json \\\n"
    "      > objects.json\n"
    "  monkeytree import kubernetes objects.json --racks topograph --uplinks 16 \\\n"
    "      -o cluster.json\n"
    "  monkeytree import kubernetes objects.json jobsets.json \\\n"
    "      --rack-label example.com/rack --parent-labels example.com/row\n"
    "\n"
    "Parallelism is told by an annotation monkeytree/comment: dp=4,tp=8,pp=2.\n"
    "What is read, every source of racks, and every warning: docs/kubernetes.md.";

struct ImportArguments {
  SlurmFiles slurm;
  CsvFiles csv;
  KubernetesFiles kubernetes;
  std::string output;
  bool strict = false;
};

/// Prints the findings, then the snapshot, where there is one.
int finish(std::optional<Snapshot> snapshot, const ImportArguments& options,
           Diagnostics& diagnostics) {
  if (options.strict) diagnostics.promote_warnings();
  print_findings(diagnostics);
  if (!snapshot || diagnostics.has_errors()) return kExitBadInput;
  return write_result(options.output, write_snapshot(*snapshot), kExitDone);
}

void add_shared(CLI::App& command, ImportArguments& options, std::string& uplinks) {
  command
      .add_option("--uplinks", uplinks,
                  "uplinks of every rack, or a table with the columns rack,uplinks")
      ->check(CLI::Validator(
          [](const std::string& value) {
            const bool good = !is_uplink_count(value) || parse_uplink_count(value);
            return good ? "" : uplinks_fault(value, UplinksForm::kNumberOrFile);
          },
          ""))
      ->type_name("N|FILE");
  command.add_flag("--strict", options.strict, "warnings are errors");
  command
      .add_option("-o,--output", options.output, "write the snapshot here, not to standard output")
      ->type_name("FILE");
}

void add_slurm(CLI::App& parent, const std::shared_ptr<ImportArguments>& options, int& exit_code) {
  CLI::App& command =
      add_command(parent, "slurm", "Slurm's files and JSON to a snapshot", kSlurmExamples);
  SlurmFiles& files = options->slurm;
  command.add_option("--topology", files.topology, "topology.conf or topology.yaml")
      ->required()
      ->type_name("FILE");
  command.add_option("--jobs", files.jobs, "what `squeue --json` prints")
      ->required()
      ->type_name("FILE");
  command
      .add_option(
          "--nodes", files.nodes,
          "what `scontrol show nodes --json` prints (or `sinfo --json`, `scontrol show node`)")
      ->type_name("FILE");
  command.add_option("--topology-name", files.topology_name, "which topology of a topology.yaml")
      ->type_name("NAME");
  add_shared(command, *options, files.uplinks);
  command.callback([options, &exit_code] {
    Diagnostics diagnostics;
    exit_code = finish(import_slurm(options->slurm, diagnostics), *options, diagnostics);
  });
}

void add_csv(CLI::App& parent, const std::shared_ptr<ImportArguments>& options, int& exit_code) {
  CLI::App& command = add_command(parent, "csv", "a table of hosts to a fabric", kCsvExamples);
  CsvFiles& files = options->csv;
  command.add_option("--fabric", files.fabric, "a CSV file, one host a row")
      ->required()
      ->type_name("FILE");
  command.add_option("--host", files.host, "the column that names the host")
      ->required()
      ->type_name("COL");
  command.add_option("--rack", files.rack, "the columns that together name the rack")
      ->required()
      ->delimiter(',')
      ->type_name("COL[,COL]");
  add_shared(command, *options, files.uplinks);
  command.callback([options, &exit_code] {
    Diagnostics diagnostics;
    exit_code = finish(import_csv(options->csv, diagnostics), *options, diagnostics);
  });
}

void add_kubernetes(CLI::App& parent, const std::shared_ptr<ImportArguments>& options,
                    int& exit_code) {
  CLI::App& command =
      add_command(parent, "kubernetes", "objects of Kubernetes to a snapshot", kKubernetesExamples);
  KubernetesFiles& files = options->kubernetes;
  command
      .add_option("objects", files.objects,
                  "what `kubectl get KINDS -A -o json` prints, - for "
                  "standard input")
      ->required()
      ->type_name("FILE...");
  CLI::Option* source =
      command
          .add_option("--racks", files.racks.source,
                      "whose labels name racks: topograph, topograph-network, eks, gke, coreweave, "
                      "oci; or kueue, kueue:TOPOLOGY, hypernode")
          ->type_name("SOURCE");
  command.add_option("--rack-label", files.racks.rack_label, "the node label that names the rack")
      ->excludes(source)
      ->type_name("LABEL");
  command
      .add_option("--parent-labels", files.racks.parent_labels,
                  "the labels that name what racks are in, leaf to root")
      ->delimiter(',')
      ->type_name("LABEL[,LABEL]");
  command.add_option("--gpu-resource", files.reading.gpu_resource, "what a GPU is called")
      ->capture_default_str()
      ->type_name("RESOURCE");
  add_shared(command, *options, files.uplinks);
  command.callback([options, &exit_code] {
    Diagnostics diagnostics;
    exit_code = finish(import_kubernetes(options->kubernetes, diagnostics), *options, diagnostics);
  });
}

}  // namespace

void add_import(CLI::App& app, int& exit_code) {
  CLI::App& command =
      add_command(app, "import", "a cluster's own files to a snapshot, or its log to a trace",
                  "Examples:\n"
                  "  monkeytree import slurm --help\n"
                  "  monkeytree import kubernetes --help\n"
                  "  monkeytree import csv --help\n"
                  "  monkeytree import trace --help");
  command.require_subcommand(1);
  const auto options = std::make_shared<ImportArguments>();
  add_slurm(command, options, exit_code);
  add_kubernetes(command, options, exit_code);
  add_csv(command, options, exit_code);
  add_import_trace(command, exit_code);
}

}  // namespace monkeytree
