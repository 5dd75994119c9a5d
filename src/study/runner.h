#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Runs the cells of a grid (systems × loads × fabrics × seeds) on several threads and keeps each
/// result as soon as it is there, so that a run that was stopped or killed goes on where it was.
///
///     std::vector<GridCell> grid;
///     for (double load : {0.9, 1.0})
///       for (int seed = 1; seed <= 5; ++seed) {
///         const Scenario scenario = scenario_of(load, seed);
///         grid.push_back({.key = fmt::format("ecmp-load{:.2f}-seed{}", load, seed),
///                         .definition = to_yaml(scenario),       // all that the result depends on
///                         .cost = load,                          // long cells first; optional
///                         .run = [scenario](const StopPredicate& stop) {
///                           return summary_json(simulate(scenario, stop));  // or a status
///                         }});
///       }
///     auto folder = CellFolder::open(directory);                 // DIRECTORY/cells/KEY.json
///     if (!folder.ok()) return report(folder.status());
///     const GridResult result = run_grid(grid, *folder, {.threads = 4, .stop = &interrupted,
///                                                        .progress = print_progress});
///     for (const CellResult& cell : result.cells)                // in grid order
///       if (cell.ok()) use(cell.key, cell.json);
///       else if (cell.state == CellState::kFailed) complain(cell.key, cell.error);
///
/// The tasks of a Slurm array each run one cell of the grid into the same folder; gather() then
/// reads them all.
namespace monkeytree {

/// True once the run should end; asked now and then by what takes long.
using StopPredicate = std::function<bool()>;

/// One run of a study.
struct GridCell {
  std::string key;  ///< names the cell and its file: letters, digits and "._=+-", not "." first
  /// Text that determines the result (scenario, seed, version of the rules). A result kept from
  /// another definition is not used again.
  std::string definition;
  double cost = 1;  ///< expected run time in any unit: dear cells start first, and time left
  /// The result, one JSON value and whole. Called on any thread, at most once. When `stop` turns
  /// true it should return soon, with kCancelled; an error after that only means "not run".
  std::function<absl::StatusOr<std::string>(const StopPredicate& stop)> run = nullptr;
};

/// Where results are kept. Functions may be called from several threads at once.
class CellStore {
 public:
  virtual ~CellStore() = default;
  /// What was kept under a key; nullopt where nothing was, or nothing that can be read.
  virtual std::optional<std::string> load(std::string_view key) = 0;
  /// Keeps `text` as a whole or not at all. The message of an error says where.
  virtual absl::Status store(std::string_view key, std::string_view text) = 0;
};

/// Keeps results as DIRECTORY/cells/KEY.json, each written beside its place and renamed.
class CellFolder : public CellStore {
 public:
  /// Makes the folders where they are missing, and tries whether they can be written. Removes what
  /// killed runs left half-written more than ten minutes ago.
  static absl::StatusOr<CellFolder> open(const std::string& directory);

  std::optional<std::string> load(std::string_view key) override;
  absl::Status store(std::string_view key, std::string_view text) override;
  std::string path(std::string_view key) const;

 private:
  explicit CellFolder(std::string cells) : cells_(std::move(cells)) {}
  std::string cells_;  ///< with its final slash
};

enum class CellState {
  kDone,    ///< run now
  kKept,    ///< there from an earlier run
  kFailed,  ///< `error` says why; the other cells went on
  kNotRun,  ///< the run ended before
};

struct CellResult {
  std::string key;
  CellState state = CellState::kNotRun;
  std::string json = {};  ///< byte for byte what the cell returned, whether done or kept
  absl::Status error = {};

  bool ok() const { return state == CellState::kDone || state == CellState::kKept; }
};

struct GridResult {
  std::vector<CellResult> cells;  ///< in grid order, whatever the number of threads
  /// Not OK where the grid itself is at fault (a bad or repeated key: nothing was run) or a result
  /// could not be kept (disk full: the run ended there, what was kept before stays).
  absl::Status status;
  bool stopped = false;  ///< by the stop flag, with cells left to run

  size_t count(CellState state) const;
  bool complete() const {
    return count(CellState::kDone) + count(CellState::kKept) == cells.size();
  }
};

/// What a line of progress needs.
struct Progress {
  size_t total = 0;
  size_t done = 0;  ///< run now
  size_t kept = 0;  ///< from an earlier run
  size_t failed = 0;
  size_t running = 0;
  double elapsed_s = 0;
  std::optional<double> left_s =
      {};  ///< estimated by cost; unknown before the first cell has ended
};

struct GridOptions {
  int threads = 0;                          ///< 0: one for each core
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C, for example
  /// Called on the thread of run_grid() after each cell and each second.
  std::function<void(const Progress&)> progress = nullptr;
};

/// Runs every cell that `store` does not hold. What a cell throws is its error. Without the stop
/// flag and with cells that are functions of their definition, the result is the same for any
/// number of threads and any number of interruptions.
GridResult run_grid(const std::vector<GridCell>& grid, CellStore& store,
                    const GridOptions& options = {});

/// Only reads: kept cells, and kNotRun for all others.
GridResult gather(const std::vector<GridCell>& grid, CellStore& store);

/// "1:02:03" or "2:03"; for progress.
std::string clock_text(double seconds);

/// "12 of 40 cells, 3 from before, 1 failed, 2 running, 0:31, 1:05 left".
std::string progress_text(const Progress& progress);

}  // namespace monkeytree
