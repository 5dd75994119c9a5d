#include "inventory/slurm_books.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/json.h"
#include "inventory/slurm_conf.h"

namespace monkeytree {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && (is_blank(text.back()) || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool lists(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = split(list, ',');
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view w) { return trimmed(w) == word; });
}

bool exclusive(const SlurmConfig& config, const std::string& partition) {
  const auto found = config.oversubscribe.find(partition);
  return found != config.oversubscribe.end() && found->second == "EXCLUSIVE";
}

bool any_exclusive(const SlurmConfig& config) {
  return std::any_of(config.oversubscribe.begin(), config.oversubscribe.end(),
                     [&](const auto& entry) { return entry.second == "EXCLUSIVE"; });
}

bool shared(const SlurmConfig& config, const std::string& partition) {
  const auto found = config.oversubscribe.find(partition);
  return found == config.oversubscribe.end() ||
         (found->second != "NO" && found->second != "EXCLUSIVE");
}

}  // namespace

std::string_view name_of(SlurmBooks books) {
  switch (books) {
    case SlurmBooks::kNone:
      return "none";
    case SlurmBooks::kCompanions:
      return "companions";
    case SlurmBooks::kMerge:
      return "merge";
  }
  return "";
}

std::string SlurmConfig::value(const std::string& key) const {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second;
}

SlurmConfig read_slurm_config(std::string_view config, std::string_view partitions) {
  SlurmConfig out;
  for (std::string_view line : split(config, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    std::string value(trimmed(line.substr(equals + 1)));
    if (value == "(null)") value.clear();
    out.values.emplace(trimmed(line.substr(0, equals)), std::move(value));
  }
  for (const auto& record : read_one_liners(partitions)) {
    const auto name = record.find("PartitionName");
    const auto shares = record.find("OverSubscribe");
    if (name == record.end()) continue;
    out.oversubscribe[name->second] = shares == record.end() ? "" : shares->second;
  }
  return out;
}

std::vector<std::map<std::string, std::string>> read_one_liners(std::string_view text) {
  std::vector<std::map<std::string, std::string>> out;
  for (std::string_view line : split(text, '\n')) {
    std::map<std::string, std::string> record;
    std::string* last = nullptr;
    for (std::string_view word : split(line, ' ')) {
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        if (last) last->append(" ").append(word);
        continue;
      }
      last = &record.emplace(word.substr(0, equals), word.substr(equals + 1)).first->second;
    }
    if (!record.empty()) out.push_back(std::move(record));
  }
  return out;
}

BooksChoice choose_books(const SlurmConfig& config, std::string_view wanted) {
  const auto no = [](std::string why) { return BooksChoice{SlurmBooks::kNone, std::move(why)}; };
  const std::string accounting = config.value("AccountingStorageType");
  if (accounting != "accounting_storage/slurmdbd") {
    return no(
        fmt::format("AccountingStorageType is {}: without slurmdbd Slurm resizes a job only "
                    "once",
                    printable(accounting.empty() ? "not told" : accounting)));
  }
  const std::string select = config.value("SelectType");
  const bool gpus = lists(config.value("GresTypes"), "gpu");
  const bool any_gres = !config.value("GresTypes").empty();
  if (select == "select/cons_res") {
    return no(any_gres ? "SelectType is select/cons_res with GresTypes: it gives nodes away twice "
                         "after a move"
                       : "SelectType is select/cons_res: moves were never tried with it");
  }
  const bool tres = select == "select/cons_tres";
  if (!tres && select != "select/linear") {
    return no(fmt::format("SelectType is {}: moves were never tried with it", printable(select)));
  }
  if (tres && gpus && wanted != "merge") return {SlurmBooks::kCompanions, ""};
  if (wanted == "companions") {
    return no("companions need SelectType select/cons_tres and gpu among GresTypes");
  }
  if (tres && any_gres) {
    return no("SelectType is select/cons_tres with GresTypes: merging jobs damages its books");
  }
  if (!lists(config.value("SchedulerParameters"), "permit_job_expansion")) {
    return no("SchedulerParameters lacks permit_job_expansion");
  }
  if (tres && !any_exclusive(config)) {
    return no(
        "SelectType is select/cons_tres without GresTypes, and no partition is "
        "OverSubscribe=EXCLUSIVE: others could get onto a node that is held");
  }
  return {SlurmBooks::kMerge, ""};
}

std::string why_unmovable(const JobLayout& job, SlurmBooks books, const SlurmConfig& config,
                          const std::map<std::string, int>& gpus) {
  const SlurmJob& slurm = *job.job;
  if (job.staged) return "the state of a worker is staged";
  if (slurm.id.find('+') != std::string::npos) return "it is part of a heterogeneous job";
  const bool any_gpus = std::any_of(job.members.begin(), job.members.end(),
                                    [](const auto& member) { return member.gpus > 0; });
  if (books == SlurmBooks::kCompanions) {
    for (const JobLayout::Member& member : job.members) {
      if (member.gpus == 0) return fmt::format("Slurm gave it no GPUs on {}", member.node);
      const auto node = gpus.find(member.node);
      if (node != gpus.end() && node->second != member.gpus) {
        return fmt::format("it holds {} of {} GPUs of {}: companions hold whole nodes", member.gpus,
                           node->second, member.node);
      }
    }
  }
  if (books == SlurmBooks::kMerge) {
    if (any_gpus) return "it holds GPUs as GRES: Slurm refuses to merge such jobs, half done";
    if (config.value("SelectType") == "select/cons_tres" && !exclusive(config, slurm.partition)) {
      return fmt::format(
          "its partition {} is not OverSubscribe=EXCLUSIVE: others could get onto a "
          "node that is held",
          printable(slurm.partition));
    }
    if (shared(config, slurm.partition)) {
      return fmt::format("jobs share nodes in its partition {}", printable(slurm.partition));
    }
  }
  return "";
}

std::vector<std::string> kept_nodes(const SlurmJob& job, SlurmBooks books) {
  std::vector<std::string> out;
  if (!job.batch_host.empty()) out.push_back(job.batch_host);
  const bool last_one = books == SlurmBooks::kCompanions;
  if (out.empty() && last_one && !job.nodes.empty()) out.push_back(job.nodes[0]);
  return out;
}

}  // namespace monkeytree
