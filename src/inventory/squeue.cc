#include "inventory/squeue.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hostlist.h"
#include "base/json.h"
#include "inventory/slurm_value.h"

namespace monkeytree {
namespace {

using simdjson::dom::element;

/// `job_resources.nodes` as a host list: a text, {"list": text, "allocation": [{"name": text}]}, or
/// a list of texts or of such objects.
std::string nodes_of_resources(std::optional<element> resources) {
  if (!resources || !resources->is_object()) return "";
  const std::optional<element> nodes = field(*resources, "nodes");
  if (!nodes) return "";
  std::optional<element> list = nodes;
  if (nodes->is_object()) {
    list = field(*nodes, "list");
    if (!list) list = field(*nodes, "allocation");
  }
  simdjson::dom::array items;
  if (!list || list->get(items) != simdjson::SUCCESS) return slurm_text(list);
  std::string out;
  for (element item : items) {
    std::optional<element> name = item;
    for (const char* key : {"name", "nodename", "node"}) {
      if (item.is_object()) name = field(item, key);
      if (name) break;
    }
    if (name && name->is_string()) out += slurm_text(name) + ",";
  }
  return out;
}

/// A time in seconds since 1970; nullopt where Slurm has none (0, or not set).
std::optional<double> time_of(std::optional<element> value) {
  const std::optional<int64_t> seconds = slurm_number(value);
  if (!seconds || *seconds <= 0) return std::nullopt;
  return static_cast<double>(*seconds);
}

/// GPUs on each of `count` nodes, from the best source there is.
std::vector<int> gpus_of(const SlurmObject& job, size_t count) {
  std::vector<int> out;
  if (const std::optional<element> detail = job["gres_detail"]; detail && detail->is_array()) {
    for (element item : simdjson::dom::array(*detail)) {
      out.push_back(parse_gpus(slurm_text(item)).count);
    }
    if (out.size() == count) return out;
  }
  int each = parse_gpus(slurm_text(job["tres_per_node"])).count;
  if (each == 0 && count > 0) {
    each = parse_gpus(slurm_text(job["tres_alloc_str"])).count / static_cast<int>(count);
  }
  out.assign(count, each);
  return out;
}

class QueueReader {
 public:
  QueueReader(std::string_view file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics) {}

  void take(const JsonPiece& piece) {
    if (piece.key == "last_update") queue_.time_s = time_of(piece.value);
    if (piece.key == "errors" && piece.index >= 0) {
      const std::string text = slurm_text(field_of(piece.value, "error"));
      diagnostics_.warning(file_, piece.line, piece.path(),
                           fmt::format("Slurm reports an error: {}", printable(text)));
      queue_.errors.push_back(text);
    }
    if (piece.key != "jobs") return;
    if (piece.index < 0) return error(piece, "expected a list of jobs");
    if (!piece.value.is_object()) return error(piece, "expected a job, an object");
    take_job(piece, SlurmObject(piece.value));
  }

  SlurmQueue finish() { return std::move(queue_); }

 private:
  void error(const JsonPiece& piece, std::string message) {
    diagnostics_.error(file_, piece.line, piece.path(), std::move(message));
  }

  static std::optional<element> field_of(element value, std::string_view name) {
    return value.is_object() ? field(value, name) : value;
  }

  void take_job(const JsonPiece& piece, const SlurmObject& fields) {
    if (const std::optional<std::string_view> key = fields.repeated_key()) {
      return error(piece, fmt::format("the field {} stands there twice", quote(*key)));
    }
    const std::optional<int64_t> number = slurm_number(fields["job_id"]);
    if (!number) return error(piece, "no job_id, expected a job of squeue --json");
    const std::vector<std::string> states = slurm_words(fields["job_state"]);
    if (states.empty()) return error(piece, "no job_state, expected a job of squeue --json");
    SlurmJob job;
    job.completing = has_word(states, {"COMPLETING"});
    job.running = has_word(states, {"RUNNING"}) && !job.completing;
    const bool holds = job.running || has_word(states, {"COMPLETING", "SUSPENDED", "CONFIGURING",
                                                        "STOPPED", "SIGNALING", "STAGE_OUT"});
    if (!holds) return;
    job.number = *number;
    job.id = display_id(fields, *number);
    job.path = piece.path();
    job.line = piece.line;
    if (!ids_.insert(job.id).second) {
      diagnostics_.warning(
          file_, piece.line, piece.path(),
          fmt::format("job {} stands there twice, the first counts", quote(job.id)));
      return;
    }
    if (!take_nodes(piece, fields, job)) return;
    take_texts(fields, job);
    queue_.jobs.push_back(std::move(job));
  }

  static std::string display_id(const SlurmObject& fields, int64_t number) {
    const int64_t array = slurm_number(fields["array_job_id"]).value_or(0);
    const std::optional<int64_t> task = slurm_number(fields["array_task_id"]);
    if (array > 0 && task) return fmt::format("{}_{}", array, *task);
    const int64_t het = slurm_number(fields["het_job_id"]).value_or(0);
    if (het > 0) {
      return fmt::format("{}+{}", het, slurm_number(fields["het_job_offset"]).value_or(0));
    }
    return fmt::format("{}", number);
  }

  /// False where the job is left out.
  bool take_nodes(const JsonPiece& piece, const SlurmObject& fields, SlurmJob& job) {
    std::string list = slurm_text(fields["nodes"]);
    if (list.empty()) list = nodes_of_resources(fields["job_resources"]);
    absl::StatusOr<std::vector<std::string>> nodes = expand_hostlist(list);
    if (!nodes.ok()) {
      error(piece, fmt::format("job {}: nodes {}: {}", quote(job.id), quote(list),
                               std::string(nodes.status().message())));
      return false;
    }
    if (nodes->empty()) {
      if (job.running) {
        diagnostics_.warning(
            file_, piece.line, piece.path(),
            fmt::format("job {} runs and names no nodes, it is left out", quote(job.id)));
      }
      return false;
    }
    if (nodes->size() > nodes_left_) {
      nodes_left_ = 0;
      error(piece, fmt::format("all jobs hold more than {} nodes together", kMaxJobNodes));
      return false;
    }
    nodes_left_ -= nodes->size();
    job.gpus = gpus_of(fields, nodes->size());
    absl::flat_hash_set<std::string> seen;
    for (size_t n = 0; n < nodes->size(); ++n) {
      if (!seen.insert((*nodes)[n]).second) continue;
      job.gpus[job.nodes.size()] = job.gpus[n];
      job.nodes.push_back(std::move((*nodes)[n]));
    }
    job.gpus.resize(job.nodes.size());
    return true;
  }

  static void take_texts(const SlurmObject& fields, SlurmJob& job) {
    job.name = slurm_text(fields["name"]);
    job.user = slurm_text(fields["user_name"]);
    job.partition = slurm_text(fields["partition"]);
    job.cluster = slurm_text(fields["cluster"]);
    job.account = slurm_text(fields["account"]);
    job.qos = slurm_text(fields["qos"]);
    job.reservation = slurm_text(fields["resv_name"]);
    job.user_id = slurm_number(fields["user_id"]);
    job.group_id = slurm_number(fields["group_id"]);
    job.limit_min = slurm_number(fields["time_limit"]);
    bool batch = false;
    if (const std::optional<element> flag = fields["batch_flag"]; flag && flag->is_bool()) {
      batch = bool(*flag);
    }
    if (batch) job.batch_host = slurm_text(fields["batch_host"]);
    job.start_s = time_of(fields["start_time"]);
    job.end_s = time_of(fields["end_time"]);
    job.admin_comment = slurm_text(fields["admin_comment"]);
    const std::optional<element> comment = fields["comment"];
    job.comment = slurm_text(comment);
    if (comment && comment->is_object()) {  // {"job": ..., "administrator": ..., "system": ...}
      job.comment = slurm_text(field(*comment, "job"));
      if (job.admin_comment.empty()) {
        job.admin_comment = slurm_text(field(*comment, "administrator"));
      }
    }
  }

  std::string_view file_;
  Diagnostics& diagnostics_;
  SlurmQueue queue_;
  absl::flat_hash_set<std::string> ids_;
  size_t nodes_left_ = kMaxJobNodes;
};

}  // namespace

std::optional<SlurmQueue> read_squeue(const ReadBytes& read, std::string_view file,
                                      Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  QueueReader reader(file, diagnostics);
  const auto fields = read_json_pieces(read, file, diagnostics,
                                       [&](const JsonPiece& piece) { reader.take(piece); });
  if (fields && !fields->contains("jobs")) {
    diagnostics.error(file, 0, "", "no field \"jobs\", expected what `squeue --json` prints");
  }
  if (diagnostics.error_count() > before) return std::nullopt;
  return reader.finish();
}

}  // namespace monkeytree
