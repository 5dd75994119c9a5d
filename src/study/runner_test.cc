#include "study/runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/diagnostics.h"
#include "base/file.h"
#include "base/json.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A store in memory that can refuse.
class Memory : public CellStore {
 public:
  std::optional<std::string> load(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    const auto it = texts.find(std::string(key));
    return it == texts.end() ? std::nullopt : std::optional(it->second);
  }
  absl::Status store(std::string_view key, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    if (texts.size() >= room) return absl::UnavailableError("No space left on device");
    texts[std::string(key)] = text;
    return absl::OkStatus();
  }

  std::map<std::string, std::string> texts;
  size_t room = 1000;

 private:
  std::mutex mutex_;
};

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "runner_test.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& below = "") const { return path_ + below; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

std::string key_of(int i) { return fmt::format("cell-{:02}", i); }
std::string square_of(int i) { return fmt::format("{{\"square\": {}}}", i * i); }

/// `n` cells; the later ones are quicker, so that they overtake. Counts what was run.
std::vector<GridCell> squares(int n, std::atomic<int>& ran) {
  std::vector<GridCell> grid;
  for (int i = 0; i < n; ++i) {
    grid.push_back({.key = key_of(i),
                    .definition = fmt::format("square of {}", i),
                    .run = [i, n, &ran](const StopPredicate&) -> absl::StatusOr<std::string> {
                      std::this_thread::sleep_for(std::chrono::microseconds(100 * (n - i)));
                      ++ran;
                      return square_of(i);
                    }});
  }
  return grid;
}

class Threads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Runner, Threads, testing::Values(1, 4));

TEST_P(Threads, ResultsStandInGridOrder) {
  std::atomic<int> ran = 0;
  const auto grid = squares(30, ran);
  Memory store;
  const GridResult result = run_grid(grid, store, {.threads = GetParam()});
  EXPECT_TRUE(result.complete());
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(ran, 30);
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(result.cells[i].key, key_of(i));
    EXPECT_EQ(result.cells[i].state, CellState::kDone);
    EXPECT_EQ(result.cells[i].json, square_of(i));
  }
}

TEST_P(Threads, AnotherRunTakesWhatIsKept) {
  std::atomic<int> ran = 0;
  const auto grid = squares(10, ran);
  Folder folder;
  auto store = CellFolder::open(folder.path("/a/b"));
  ASSERT_TRUE(store.ok()) << store.status();
  const GridResult first = run_grid(grid, *store, {.threads = GetParam()});
  ASSERT_TRUE(first.complete());
  EXPECT_EQ(folder.files().size(), 10u);
  const GridResult second = run_grid(grid, *store, {.threads = GetParam()});
  EXPECT_EQ(ran, 10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(second.cells[i].state, CellState::kKept);
    EXPECT_EQ(second.cells[i].json, first.cells[i].json);
  }
}

TEST_P(Threads, AnErrorIsTheCellsOwn) {
  std::atomic<int> ran = 0;
  auto grid = squares(8, ran);
  grid[2].run = [](const StopPredicate&) { return absl::InvalidArgumentError("no such model"); };
  grid[3].run = [](const StopPredicate&) -> absl::StatusOr<std::string> {
    throw std::runtime_error("thrown");
  };
  grid[4].run = [](const StopPredicate&) { return std::string("{\"half\":"); };
  grid[5].run = nullptr;
  Memory store;
  const GridResult result = run_grid(grid, store, {.threads = GetParam()});
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.count(CellState::kDone), 4u);
  EXPECT_EQ(result.count(CellState::kFailed), 4u);
  EXPECT_EQ(result.cells[2].error.message(), "no such model");
  EXPECT_EQ(result.cells[3].error.message(), "thrown");
  EXPECT_THAT(std::string(result.cells[4].error.message()), HasSubstr("its result is no JSON"));
  EXPECT_EQ(store.texts.size(), 4u);
}

TEST_P(Threads, StopEndsRunningCellsAndStartsNoMore) {
  std::atomic<bool> stop = false;
  std::atomic<int> started = 0;
  std::vector<GridCell> grid;
  for (int i = 0; i < 20; ++i) {
    grid.push_back(
        {.key = key_of(i),
         .definition = "d",
         .run = [i, &stop, &started](const StopPredicate& asked) -> absl::StatusOr<std::string> {
           ++started;
           if (i < 3) return square_of(i);
           stop = true;
           while (!asked()) std::this_thread::yield();
           return absl::CancelledError("stopped");
         }});
  }
  Folder folder;
  auto store = CellFolder::open(folder.path());
  ASSERT_TRUE(store.ok());
  const GridResult result = run_grid(grid, *store, {.threads = GetParam(), .stop = &stop});
  EXPECT_TRUE(result.stopped);
  EXPECT_TRUE(result.status.ok());
  EXPECT_LE(started, 3 + GetParam());
  EXPECT_EQ(result.count(CellState::kFailed), 0u);
  EXPECT_EQ(result.count(CellState::kDone), 3u);
  EXPECT_EQ(folder.files().size(), 3u);
  EXPECT_EQ(gather(grid, *store).count(CellState::kKept), 3u);
}

TEST_P(Threads, ADiskThatIsFullEndsTheRun) {
  std::atomic<int> ran = 0;
  const auto grid = squares(40, ran);
  Memory store;
  store.room = 5;
  const GridResult result = run_grid(grid, store, {.threads = GetParam()});
  EXPECT_EQ(result.status.message(), "No space left on device");
  EXPECT_FALSE(result.stopped);
  EXPECT_LE(ran, 5 + 2 * GetParam());
  EXPECT_EQ(gather(grid, store).count(CellState::kKept), 5u);
  store.room = 1000;
  EXPECT_TRUE(run_grid(grid, store, {.threads = GetParam()}).complete());
}

TEST_P(Threads, ProgressIsToldOnTheCallersThread) {
  std::atomic<int> ran = 0;
  auto grid = squares(12, ran);
  grid[1].run = [](const StopPredicate&) { return absl::InternalError("bad"); };
  Memory store;
  run_grid({grid[0]}, store, {.threads = 1});
  std::vector<Progress> told;
  const auto caller = std::this_thread::get_id();
  run_grid(grid, store, {.threads = GetParam(), .progress = [&](const Progress& progress) {
                           EXPECT_EQ(std::this_thread::get_id(), caller);
                           told.push_back(progress);
                         }});
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().total, 12u);
  EXPECT_EQ(told.back().done, 10u);
  EXPECT_EQ(told.back().kept, 1u);
  EXPECT_EQ(told.back().failed, 1u);
  EXPECT_EQ(told.back().running, 0u);
  ASSERT_TRUE(told.back().left_s.has_value());
  EXPECT_DOUBLE_EQ(*told.back().left_s, 0);
}

TEST(Runner, DearCellsStartFirst) {
  std::vector<std::string> order;
  std::vector<GridCell> grid;
  for (const double cost : {1.0, 5.0, 3.0, 5.0}) {
    const std::string key = key_of(static_cast<int>(grid.size()));
    grid.push_back({.key = key, .definition = "d", .cost = cost, .run = [&order, key](auto&) {
                      order.push_back(key);
                      return std::string("1");
                    }});
  }
  Memory store;
  run_grid(grid, store, {.threads = 1});
  EXPECT_THAT(order, ElementsAre("cell-01", "cell-03", "cell-02", "cell-00"));
}

TEST(Runner, BadKeysRunNothing) {
  std::atomic<int> ran = 0;
  for (const std::string key : {"", "a/b", "../x", ".x", "a b", "é", "cell-01"}) {
    auto grid = squares(3, ran);
    grid[2].key = key;
    Memory store;
    const GridResult result = run_grid(grid, store);
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(result.count(CellState::kNotRun), 3u);
  }
  EXPECT_EQ(ran, 0);
}

TEST(Runner, AnEmptyGridIsComplete) {
  Memory store;
  EXPECT_TRUE(run_grid({}, store).complete());
}

// Only a file that is whole, of this cell and of this definition is used again.
TEST(Runner, WhatIsNotWholeOrNotTheSameRunsAgain) {
  std::atomic<int> ran = 0;
  auto grid = squares(1, ran);
  Memory good;
  run_grid(grid, good);
  const std::string text = good.texts["cell-00"];
  for (size_t length = 0; length < text.size(); ++length) {
    Memory cut;
    cut.texts["cell-00"] = text.substr(0, length);
    EXPECT_EQ(gather(grid, cut).count(CellState::kKept), 0u) << length;
  }
  for (size_t at = 0; at < text.size(); ++at) {
    Memory changed;
    changed.texts["cell-00"] = text;
    changed.texts["cell-00"][at] ^= 1;
    EXPECT_EQ(gather(grid, changed).count(CellState::kKept), 0u) << at;
  }
  EXPECT_EQ(gather(grid, good).count(CellState::kKept), 1u);
  grid[0].definition += ", rules of today";
  ran = 0;
  EXPECT_EQ(gather(grid, good).count(CellState::kKept), 0u);
  EXPECT_EQ(run_grid(grid, good).count(CellState::kDone), 1u);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(gather(grid, good).count(CellState::kKept), 1u);
}

TEST(Runner, AKeptFileIsJson) {
  std::atomic<int> ran = 0;
  Memory store;
  run_grid(squares(1, ran), store);
  Diagnostics diagnostics;
  auto document = JsonDocument::parse(store.texts["cell-00"], "cell", diagnostics);
  ASSERT_TRUE(document) << diagnostics.text();
  auto root = document->root().object();
  EXPECT_EQ(root->require("schema")->string(), "monkeytree/cell/v1");
  EXPECT_EQ(root->require("key")->string(), "cell-00");
  EXPECT_EQ(root->require("result")->object()->require("square")->integer(0, 1), 0);
}

TEST(Runner, AFolderThatCannotBeWrittenIsNamed) {
  Folder folder;
  std::ofstream(folder.path("/file")) << "in the way";
  const auto blocked = CellFolder::open(folder.path("/file"));
  ASSERT_FALSE(blocked.ok());
  EXPECT_THAT(std::string(blocked.status().message()),
              HasSubstr(folder.path("/file/cells: cannot make this folder: ")));
  EXPECT_FALSE(CellFolder::open("/proc/none").ok());
}

TEST(Runner, OldLeftoversOfKilledRunsAreRemoved) {
  Folder folder;
  ASSERT_TRUE(CellFolder::open(folder.path()).ok());
  for (const char* name : {"/cells/a.json.Xy12Zq", "/cells/b.json.Xy12Zq", "/cells/a.json"}) {
    std::ofstream(folder.path(name)) << "half";
  }
  std::filesystem::last_write_time(
      folder.path("/cells/a.json.Xy12Zq"),
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(CellFolder::open(folder.path()).ok());
  EXPECT_THAT(folder.files(), ElementsAre("a.json", "b.json.Xy12Zq"));
}

/// In a child process, so that limits and kills touch nothing here. Gives its exit status.
template <class Body>
pid_t in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  return child;
}

TEST(Runner, AWriteThatFailsNamesTheFileAndKeepsTheRest) {
  Folder folder;
  const pid_t child = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    auto store = CellFolder::open(folder.path());
    std::atomic<int> ran = 0;
    auto grid = squares(3, ran);
    grid[1].run = [](const StopPredicate&) { return "\"" + std::string(100000, 'x') + "\""; };
    const rlimit limit{20000, 20000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const GridResult result = run_grid(grid, *store, {.threads = 1});
    const std::string message(result.status.message());
    const bool good = message.find(folder.path("/cells/cell-01.json: cannot write")) == 0 &&
                      result.cells[0].ok() && result.count(CellState::kNotRun) == 1;
    ::_exit(good ? 0 : 1);
  });
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(folder.files(), ElementsAre("cell-00.json"));
}

// Killed without warning while cells run: what is there is whole, and the next run does the rest.
TEST(Runner, AKilledRunIsTakenUp) {
  for (const int threads : {1, 4}) {
    Folder folder;
    std::atomic<int> ran = 0;
    const auto grid = squares(40, ran);
    const pid_t child = in_child([&] {
      auto stuck = grid;
      for (size_t i = 10; i < stuck.size(); ++i) {
        stuck[i].run = [](const StopPredicate&) { return std::to_string(::pause()); };
      }
      auto store = CellFolder::open(folder.path());
      run_grid(stuck, *store, {.threads = threads});
    });
    for (int i = 0; i < 10; ++i) {
      while (!std::filesystem::exists(folder.path("/cells/" + key_of(i) + ".json"))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));

    auto store = CellFolder::open(folder.path());
    ASSERT_TRUE(store.ok());
    const GridResult result = run_grid(grid, *store, {.threads = threads});
    EXPECT_TRUE(result.complete());
    EXPECT_EQ(result.count(CellState::kKept), 10u);
    EXPECT_EQ(ran, 30);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(result.cells[i].json, square_of(i));
  }
}

TEST(Progress, InWords) {
  EXPECT_EQ(progress_text({.total = 40,
                           .done = 9,
                           .kept = 3,
                           .failed = 1,
                           .running = 2,
                           .elapsed_s = 31.2,
                           .left_s = 65}),
            "12 of 40 cells, 3 from before, 1 failed, 2 running, 0:31, 1:05 left");
  EXPECT_EQ(progress_text({.total = 2}), "0 of 2 cells, 0:00");
  EXPECT_EQ(clock_text(3723), "1:02:03");
  EXPECT_EQ(clock_text(-5), "0:00");
}

}  // namespace
}  // namespace monkeytree
