#include "study/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/json_syntax.h"
#include "base/sha256.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxKeyBytes = 200;  // a file name with its ending, and what is written beside it
constexpr std::string_view kEnding = ".json";

bool is_key(std::string_view key) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._=+-").find(c) != std::string_view::npos;
  };
  return !key.empty() && key.size() <= kMaxKeyBytes && key[0] != '.' &&
         std::all_of(key.begin(), key.end(), good);
}

absl::Status check_keys(const std::vector<GridCell>& grid) {
  std::set<std::string_view> seen;
  for (const GridCell& cell : grid) {
    if (!is_key(cell.key)) {
      return absl::InvalidArgumentError(
          fmt::format("cell {}: a key is 1 to {} letters, digits or \"._=+-\", not \".\" first",
                      quote(cell.key), kMaxKeyBytes));
    }
    if (!seen.insert(cell.key).second) {
      return absl::InvalidArgumentError(
          fmt::format("cell {}: there are two of this key", cell.key));
    }
  }
  return absl::OkStatus();
}

/// The text that is kept is `opening`, the result, kClosing: valid JSON of which every byte is
/// known but the result's, whose hash the opening tells. Anything else is not from this cell, or
/// not whole.
std::string opening(const GridCell& cell, std::string_view result_hash) {
  return fmt::format(
      "{{\"schema\": \"monkeytree/cell/v1\", \"key\": \"{}\", \"definition_sha256\": \"{}\", "
      "\"result_sha256\": \"{}\", \"result\": ",
      cell.key, sha256(cell.definition), result_hash);
}
constexpr std::string_view kClosing = "}\n";

std::string kept_text(const GridCell& cell, const std::string& result) {
  return opening(cell, sha256(result)) + result + std::string(kClosing);
}

std::optional<std::string> result_in(const GridCell& cell, std::string_view text) {
  constexpr size_t kHashDigits = 64;
  const size_t length = opening(cell, std::string(kHashDigits, '0')).size();
  if (text.size() < length + kClosing.size() || !text.ends_with(kClosing)) return std::nullopt;
  std::string result(text.substr(length, text.size() - length - kClosing.size()));
  if (text.substr(0, length) != opening(cell, sha256(result))) return std::nullopt;
  return result;
}

absl::StatusOr<std::string> run_cell(const GridCell& cell, const StopPredicate& stop) {
  absl::StatusOr<std::string> result = absl::InternalError("there is nothing to run");
  try {
    if (cell.run) result = cell.run(stop);
  } catch (const std::exception& thrown) {
    result = absl::InternalError(thrown.what());
  } catch (...) {
    result = absl::InternalError("something was thrown that is no exception");
  }
  if (!result.ok()) return result;
  if (const auto fault = find_json_syntax_error(*result)) {
    return absl::InternalError(
        fmt::format("its result is no JSON: byte {}: {}", fault->offset, fault->message));
  }
  return result;
}

/// One run of a grid: workers take cells off a list, the caller's thread reports progress.
class Run {
 public:
  Run(const std::vector<GridCell>& grid, CellStore& store, const GridOptions& options,
      GridResult& result)
      : grid_(grid), store_(store), options_(options), result_(result) {
    for (size_t i = 0; i < grid.size(); ++i) {
      if (!result.cells[i].ok()) open_.push_back(i);
    }
    std::stable_sort(open_.begin(), open_.end(),
                     [&](size_t a, size_t b) { return grid[a].cost > grid[b].cost; });
    for (const size_t i : open_) cost_left_ += cost(i);
  }

  void run() {
    std::vector<std::thread> workers = start_workers();
    if (workers.empty()) work();
    {
      std::unique_lock lock(mutex_);
      while (working_ > 0) {
        const size_t before = ended_;
        changed_.wait_for(lock, std::chrono::seconds(1),
                          [&] { return working_ == 0 || ended_ != before; });
        report(lock);
      }
    }
    for (std::thread& worker : workers) worker.join();
    result_.stopped = stop_requested() && !result_.complete();
  }

 private:
  using Clock = std::chrono::steady_clock;

  double cost(size_t cell) const {
    const double cost = grid_[cell].cost;
    return std::isfinite(cost) && cost > 0 ? cost : 0;
  }

  bool stop_requested() const { return options_.stop != nullptr && options_.stop->load(); }

  bool ending() const { return stop_requested() || broken_.load(); }

  std::vector<std::thread> start_workers() {
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t wanted = options_.threads > 0 ? static_cast<size_t>(options_.threads) : cores;
    std::vector<std::thread> workers;
    const std::lock_guard lock(mutex_);
    while (workers.size() < std::min(wanted, open_.size())) {
      try {
        workers.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        break;  // fewer threads will do, and without any the caller's own
      }
    }
    working_ = std::max(workers.size(), size_t{1});
    return workers;
  }

  void work() {
    const StopPredicate stop = [this] { return ending(); };
    while (const std::optional<size_t> cell = take()) {
      absl::StatusOr<std::string> result = run_cell(grid_[*cell], stop);
      absl::Status kept;
      if (result.ok()) kept = store_.store(grid_[*cell].key, kept_text(grid_[*cell], *result));
      finish(*cell, std::move(result), kept);
    }
    const std::lock_guard lock(mutex_);
    --working_;
    changed_.notify_all();
  }

  std::optional<size_t> take() {
    const std::lock_guard lock(mutex_);
    if (next_ == open_.size() || ending()) return std::nullopt;
    ++running_;
    return open_[next_++];
  }

  void finish(size_t index, absl::StatusOr<std::string> result, const absl::Status& kept) {
    const std::lock_guard lock(mutex_);
    CellResult& cell = result_.cells[index];
    if (result.ok()) {
      cell.state = CellState::kDone;
      cell.json = *std::move(result);
    } else if (!ending()) {
      cell.state = CellState::kFailed;
      cell.error = result.status();
    }
    if (!kept.ok() && result_.status.ok()) {
      result_.status = kept;
      broken_ = true;
    }
    cost_left_ -= cost(index);
    cost_ended_ += cost(index);
    --running_;
    ++ended_;
    changed_.notify_all();
  }

  void report(std::unique_lock<std::mutex>& lock) {
    if (!options_.progress) return;
    Progress progress{.total = grid_.size(),
                      .done = result_.count(CellState::kDone),
                      .kept = result_.count(CellState::kKept),
                      .failed = result_.count(CellState::kFailed),
                      .running = running_,
                      .elapsed_s = std::chrono::duration<double>(Clock::now() - start_).count()};
    if (cost_ended_ > 0) {
      progress.left_s = std::max(0.0, progress.elapsed_s * cost_left_ / cost_ended_);
    }
    lock.unlock();
    options_.progress(progress);
    lock.lock();
  }

  const std::vector<GridCell>& grid_;
  CellStore& store_;
  const GridOptions& options_;
  const Clock::time_point start_ = Clock::now();
  std::vector<size_t> open_;  ///< cells to run, in the order in which they start
  std::atomic<bool> broken_ = false;

  std::mutex mutex_;  ///< over all below
  std::condition_variable changed_;
  GridResult& result_;
  size_t next_ = 0;  ///< in open_
  size_t working_ = 0;
  size_t running_ = 0;
  size_t ended_ = 0;
  double cost_left_ = 0;
  double cost_ended_ = 0;
};

/// Removes files that were being written when their process was killed.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto now = std::filesystem::file_time_type::clock::now();
  for (std::filesystem::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    const size_t ending = name.rfind(std::string(kEnding) + ".");
    if (ending == std::string::npos || name.size() != ending + kEnding.size() + 7) continue;
    std::error_code error;
    const auto written = it->last_write_time(error);
    if (!error && now - written > std::chrono::minutes(10)) {
      std::filesystem::remove(it->path(), error);
    }
  }
}

}  // namespace

absl::StatusOr<CellFolder> CellFolder::open(const std::string& directory) {
  const std::filesystem::path cells = std::filesystem::path(directory) / "cells";
  std::error_code error;
  std::filesystem::create_directories(cells, error);
  if (error) {
    return absl::UnavailableError(
        fmt::format("{}: cannot make this folder: {}", cells.string(), error.message()));
  }
  CellFolder folder(cells.string() + "/");
  const std::string probe = folder.cells_ + ".writable";
  if (const absl::Status status = write_file(probe, "yes\n"); !status.ok()) {
    return absl::UnavailableError(fmt::format("{}: expected a folder to write results to, but {}",
                                              cells.string(), std::string(status.message())));
  }
  std::filesystem::remove(probe, error);
  remove_leftovers(cells);
  return folder;
}

std::string CellFolder::path(std::string_view key) const {
  return fmt::format("{}{}{}", cells_, key, kEnding);
}

std::optional<std::string> CellFolder::load(std::string_view key) {
  absl::StatusOr<std::string> text = read_file(path(key));
  if (!text.ok()) return std::nullopt;
  return *std::move(text);
}

absl::Status CellFolder::store(std::string_view key, std::string_view text) {
  const absl::Status status = write_file(path(key), text);
  if (status.ok()) return absl::OkStatus();
  return absl::Status(status.code(),
                      fmt::format("{}: {}", path(key), std::string(status.message())));
}

size_t GridResult::count(CellState state) const {
  return static_cast<size_t>(std::count_if(
      cells.begin(), cells.end(), [state](const CellResult& cell) { return cell.state == state; }));
}

GridResult gather(const std::vector<GridCell>& grid, CellStore& store) {
  GridResult result;
  for (const GridCell& cell : grid) result.cells.push_back({.key = cell.key});
  result.status = check_keys(grid);
  if (!result.status.ok()) return result;
  for (size_t i = 0; i < grid.size(); ++i) {
    const std::optional<std::string> text = store.load(grid[i].key);
    std::optional<std::string> kept = text ? result_in(grid[i], *text) : std::nullopt;
    if (!kept) continue;
    result.cells[i].state = CellState::kKept;
    result.cells[i].json = *std::move(kept);
  }
  return result;
}

GridResult run_grid(const std::vector<GridCell>& grid, CellStore& store,
                    const GridOptions& options) {
  GridResult result = gather(grid, store);
  if (result.status.ok() && !result.complete()) Run(grid, store, options, result).run();
  return result;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::clamp(std::round(seconds), 0.0, 1e12));
  const long long hours = whole / 3600;
  const long long minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string progress_text(const Progress& progress) {
  std::string text = fmt::format("{} of {} cells", progress.done + progress.kept, progress.total);
  if (progress.kept > 0) text += fmt::format(", {} from before", progress.kept);
  if (progress.failed > 0) text += fmt::format(", {} failed", progress.failed);
  if (progress.running > 0) text += fmt::format(", {} running", progress.running);
  text += ", " + clock_text(progress.elapsed_s);
  if (progress.left_s) text += fmt::format(", {} left", clock_text(*progress.left_s));
  return text;
}

}  // namespace monkeytree
