#pragma once

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "study/built_in.h"
#include "study/study.h"
#include "study/study_report.h"

/// What the tests of studies share: results kept in memory, and a grid of a second or two.
namespace monkeytree {

class MemoryStore : public CellStore {
 public:
  std::optional<std::string> load(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    const auto at = texts_.find(key);
    if (at == texts_.end()) return std::nullopt;
    return at->second;
  }
  absl::Status store(std::string_view key, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    texts_[std::string(key)] = text;
    return absl::OkStatus();
  }
  size_t size() const { return texts_.size(); }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> texts_;
};

inline absl::StatusOr<std::string> no_files(const std::string& name) {
  return absl::NotFoundError(name + " is not there");
}

inline std::vector<std::pair<std::string, std::string>> files_of(const StudyPlan& plan, int threads,
                                                                 MemoryStore& store) {
  const GridResult result = run_grid(grid_of(plan, no_files), store, {.threads = threads});
  EXPECT_TRUE(result.status.ok()) << result.status;
  for (const CellResult& cell : result.cells) EXPECT_TRUE(cell.ok()) << cell.key << cell.error;
  return write_study(StudyResults(plan, result)).files;
}

inline const std::string& file_ending(const std::vector<std::pair<std::string, std::string>>& files,
                                      std::string_view ending) {
  static const std::string kNone;
  for (const auto& [name, text] : files) {
    if (name.ends_with(ending)) return text;
  }
  return kNone;
}

inline Study small_study() {
  return {.name = "small",
          .base = {{"fabric.gpus", "256"},
                   {"fabric.gpus_per_rack", "32"},
                   {"fabric.spines", "8"},
                   {"workload.generate.iterations", "[2, 20]"}},
          .axes = {{"system", {"ecmp", "sglb", "monkeytree"}}, {"load", {"1.0", "2.0"}}},
          .metrics = {"slowdown_avg", "gpu_hours_lost", "gpu_hours_saved"},
          .draw = find_study("slowdown-vs-load")->draw};
}

}  // namespace monkeytree
