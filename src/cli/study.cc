#include "cli/study.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "cli/common.h"
#include "study/built_in.h"
#include "study/slurm_array.h"
#include "study/study_report.h"
#include "study/study_yaml.h"

namespace monkeytree {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree study                        the studies there are\n"
    "  monkeytree study slowdown-vs-load --quick    in about a minute\n"
    "  monkeytree study slowdown-vs-load -o out     the whole study; out/*.html, *.csv\n"
    "  monkeytree study mine.yaml              a grid of your own\n"
    "  monkeytree study threshold --executor slurm -o /shared/out\n"
    "                                          its cells as a Slurm job array\n"
    "\n"
    "Ctrl-C ends the study with what it has; the same command goes on from there.\n"
    "The same study and seeds give the same bytes for any number of threads.\n"
    "Exit code: 0 done, 1 a run failed or results could not be written, 4 stopped.";

struct StudyArguments {
  std::string study;
  std::string folder;
  StudyChoice choice;
  int threads = 0;
  std::string executor = "local";
  std::vector<std::string> slurm_options;
  std::string cell;
};

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

/// The first Ctrl-C ends the study, the second the program.
extern "C" void on_study_signal(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

absl::StatusOr<std::string> read_named(const std::string& name) { return read_file(name); }

/// Tells whoever waits how far the study is: a line that changes at a terminal, else one every
/// half minute.
class StudyProgress {
 public:
  ~StudyProgress() {
    if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
  }
  void operator()(const Progress& progress) {
    if (!terminal_ && progress.elapsed_s < next_s_) return;
    next_s_ = progress.elapsed_s + 30;
    const std::string text = fit(progress_text(progress) + "; Ctrl-C ends here", kColumns - 1);
    std::fputs((terminal_ ? "\r" + text + "\x1b[K" : text + "\n").c_str(), stderr);
    shown_ = true;
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  double next_s_ = 30;
};

std::string list_of_studies() {
  std::string text = "Studies, each one command: monkeytree study NAME\n\n";
  Table table({"name", "what it shows"});
  for (const Study& study : built_in_studies()) table.add({study.name, study.title});
  return text + table.text(Paint(colors_wanted()));
}

/// nullopt after a message.
std::optional<Study> find_or_read(const std::string& name) {
  if (const Study* study = find_study(name)) return *study;
  std::error_code ignored;
  if (name != "-" && name.find_first_of("./") == std::string::npos &&
      !std::filesystem::exists(name, ignored)) {
    std::string names;
    for (const Study& study : built_in_studies()) {
      names += (names.empty() ? "" : ", ") + study.name;
    }
    print_error(
        fmt::format("{}: no such study, expected a file or one of {}", printable(name), names));
    return std::nullopt;
  }
  const std::optional<std::string> text = read_input(name);
  if (!text) return std::nullopt;
  Diagnostics diagnostics;
  std::optional<Study> study = parse_study(*text, printable(name), read_named, diagnostics);
  print_findings(diagnostics);
  return study;
}

/// "K" or "K/TASKS"; nullopt where it is neither.
struct CellChoice {
  size_t first = 0, step = 0;
};
std::optional<CellChoice> parse_cell(const std::string& text) {
  CellChoice choice;
  const char* end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, choice.first);
  if (read.ec != std::errc()) return std::nullopt;
  if (read.ptr == end) return choice;
  if (*read.ptr != '/') return std::nullopt;
  read = std::from_chars(read.ptr + 1, end, choice.step);
  if (read.ec != std::errc() || read.ptr != end || choice.step <= choice.first) return std::nullopt;
  return choice;
}

/// Prints why cells failed, the first few; true where some did.
bool print_failures(const GridResult& result) {
  constexpr size_t kMost = 5;
  size_t failed = 0;
  for (const CellResult& cell : result.cells) {
    if (cell.state != CellState::kFailed || ++failed > kMost) continue;
    print_error(fmt::format("cell {}: {}", cell.key, std::string(cell.error.message())));
  }
  if (failed > kMost) print_error(fmt::format("{} more cells failed", failed - kMost));
  return failed > 0;
}

/// Runs a program and waits for it, `wait` called every two seconds. Its standard output goes to
/// the file `output`. An error where it could not be started; else its exit code.
template <class Wait>
absl::StatusOr<int> run_program(std::vector<std::string> words, const std::string& output,
                                const Wait& wait) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0666);
  pid_t child = -1;
  const int fault =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) {
    return absl::UnavailableError(
        fmt::format("{}: cannot run: {}", words[0], std::strerror(fault)));
  }
  for (int ticks = 0;; ++ticks) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return absl::UnavailableError(std::strerror(errno));
    if (interrupted) kill(child, SIGTERM);  // the array itself goes on
    if (ticks % 20 == 0) wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::string program_path() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "monkeytree" : self.string();
}

std::vector<std::string> task_command(const StudyArguments& arguments, const Study& study) {
  const auto absolute = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal().string();
  };
  std::vector<std::string> command = {program_path(), "study",
                                      study.from_file() ? absolute(arguments.study) : study.name,
                                      "--output", absolute(arguments.folder)};
  const StudyChoice& choice = arguments.choice;
  if (choice.quick) command.push_back("--quick");
  if (choice.jobs > 0) command.push_back(fmt::format("--jobs={}", choice.jobs));
  if (choice.seeds > 0) command.push_back(fmt::format("--seeds={}", choice.seeds));
  return command;
}

/// Submits the cells as a job array and waits for its end. What the tasks kept is gathered; where
/// some cells are missing, the logs in FOLDER/slurm say why.
GridResult run_on_slurm(const StudyArguments& arguments, const StudyPlan& plan,
                        const std::vector<GridCell>& grid, CellFolder& folder) {
  GridResult result = gather(grid, folder);
  if (!result.status.ok() || result.complete()) return result;
  const std::string scripts = std::filesystem::absolute(arguments.folder).string() + "/slurm";
  const SlurmArray array{.name = plan.study.name,
                         .folder = arguments.folder,
                         .command = task_command(arguments, plan.study),
                         .tasks = std::min(grid.size(), kMostArrayTasks),
                         .options = arguments.slurm_options};
  std::error_code error;
  std::filesystem::create_directories(scripts, error);
  const std::string script = scripts + "/" + plan.study.name + ".sh";
  result.status = write_file(script, slurm_script(array));
  if (!result.status.ok()) return result;
  const auto start = std::chrono::steady_clock::now();
  const std::string submitted = scripts + "/" + plan.study.name + ".job";
  absl::StatusOr<int> code = 0;
  {
    StudyProgress show;
    code = run_program(
        {"sbatch", "--parsable", "--wait", "--output=" + scripts + "/%a.log", script}, submitted,
        [&] {
          const GridResult now = gather(grid, folder);
          const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
          show({.total = grid.size(),
                .done = now.count(CellState::kKept),
                .elapsed_s = elapsed.count()});
        });
  }
  result = gather(grid, folder);
  result.stopped = interrupted && !result.complete();
  if (result.stopped) {
    print_error(fmt::format("the job array goes on; scancel --name=monkeytree-{} ends it",
                            plan.study.name));
  } else if (!code.ok()) {
    result.status = code.status();
  } else if (!result.complete()) {
    // sbatch tells the array's id where it took it, and else why not on standard error.
    const std::string id = read_file(submitted).value_or("");
    result.status = absl::UnavailableError(
        id.empty()
            ? fmt::format("sbatch refused {} (exit code {}); its reason stands above", script,
                          *code)
            : fmt::format("{} of {} cells are missing after job array {} ended with exit code {}; "
                          "see {}/*.log",
                          result.count(CellState::kNotRun), grid.size(),
                          id.substr(0, id.find_first_of(";\n")), *code, scripts));
  }
  return result;
}

/// One task of a job array: its cells into the folder, and nothing else.
int run_cells(const StudyArguments& arguments, std::vector<GridCell> grid, CellFolder& folder) {
  const std::optional<CellChoice> choice = parse_cell(arguments.cell);
  if (!choice || choice->first >= grid.size()) {
    print_error(fmt::format(
        "--cell {}: expected K or K/TASKS with K from 0 to {}, the last cell, and below TASKS",
        printable(arguments.cell), grid.size() - 1));
    return kExitBadInput;
  }
  std::vector<GridCell> chosen;
  for (size_t k = choice->first; k < grid.size(); k += choice->step) {
    chosen.push_back(std::move(grid[k]));
    if (choice->step == 0) break;
  }
  const GridResult result =
      run_grid(chosen, folder, {.threads = std::max(1, arguments.threads), .stop = &interrupted});
  if (!result.status.ok()) print_error(std::string(result.status.message()));
  const bool failed = print_failures(result) || !result.status.ok();
  return failed ? kExitFailed : result.stopped ? kExitLimit : kExitDone;
}

/// Writes the page and the tables of what there is.
int finish(const StudyArguments& arguments, const StudyPlan& plan, const GridResult& grid) {
  bool good = grid.status.ok();
  if (!good) print_error(std::string(grid.status.message()));
  good = !print_failures(grid) && good;
  const StudyResults results(plan, grid);
  const StudyOutput output = write_study(results);
  std::string names;
  for (const auto& [name, text] : output.files) {
    const absl::Status status = write_file(arguments.folder + "/" + name, text);
    if (!status.ok()) {
      print_error(fmt::format("{}/{}: {}", printable(arguments.folder), name,
                              std::string(status.message())));
      good = false;
    }
    names += fmt::format("  {}/{}\n", printable(arguments.folder), name);
  }
  std::string text = text_of(output.table, kColumns);
  if (!text.empty()) text += "\n";
  if (!results.missing().empty()) {
    text += fmt::format("{} of {} cells are there; the same command runs the others.\n",
                        results.size(), plan.cells.size());
  }
  text += "Wrote\n" + names;
  return print_result(text, !good ? kExitFailed : grid.stopped ? kExitLimit : kExitDone);
}

int run_study(StudyArguments arguments) {
  if (arguments.study.empty()) return print_result(list_of_studies(), kExitDone);
  std::optional<Study> study = find_or_read(arguments.study);
  if (!study) return kExitBadInput;
  if (study->from_file() && arguments.study == "-" && arguments.executor == "slurm") {
    print_error("a study from standard input cannot run on Slurm, expected a file");
    return kExitBadInput;
  }
  if (!arguments.slurm_options.empty() && arguments.executor != "slurm") {
    print_error("--slurm-option: only with --executor slurm");
    return kExitBadInput;
  }
  if (arguments.folder.empty()) arguments.folder = "study-" + study->name;
  const StudyPlan plan = plan_study(*std::move(study), arguments.choice);
  std::vector<GridCell> grid = grid_of(plan, read_named);
  absl::StatusOr<CellFolder> folder = CellFolder::open(arguments.folder);
  if (!folder.ok()) {
    print_error(std::string(folder.status().message()));
    return kExitFailed;
  }
  interrupted = false;
  std::signal(SIGINT, on_study_signal);
  std::signal(SIGTERM, on_study_signal);
  if (!arguments.cell.empty()) return run_cells(arguments, std::move(grid), *folder);
  GridResult result;
  if (arguments.executor == "slurm") {
    result = run_on_slurm(arguments, plan, grid, *folder);
  } else {
    StudyProgress show;
    result = run_grid(grid, *folder,
                      {.threads = arguments.threads,
                       .stop = &interrupted,
                       .progress = [&](const Progress& progress) { show(progress); }});
  }
  return finish(arguments, plan, result);
}

}  // namespace

void add_study(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<StudyArguments>();
  CLI::App& command = add_command(
      app, "study", "many simulated runs, as a page with charts and as tables", kExamples);
  command
      .add_option("STUDY", arguments->study,
                  "name of a study, or a file that describes one; - is standard input; none: "
                  "lists the studies")
      ->type_name("");
  command.add_option("-o,--output", arguments->folder, "folder for the results (study-NAME)")
      ->type_name("DIR");
  command.add_flag("--quick", arguments->choice.quick,
                   "fewer and shorter runs, in about a minute; the page says so");
  command.add_option("--jobs", arguments->choice.jobs, "jobs of each run")
      ->check(CLI::Range(1, 10'000'000).description(""))
      ->type_name("N");
  command.add_option("--seeds", arguments->choice.seeds, "runs of each point, seeds 1 to N")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  command.add_option("--threads", arguments->threads, "one for each core unless given")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command.add_option("--executor", arguments->executor, "local, or slurm: a job array")
      ->check(CLI::IsMember({"local", "slurm"}).description(""))
      ->type_name("NAME");
  command
      .add_option("--slurm-option", arguments->slurm_options,
                  "for sbatch, such as --slurm-option=--partition=batch; may be repeated")
      ->type_name("OPTION");
  command
      .add_option("--cell", arguments->cell,
                  "run cell K only (K/TASKS: every TASKS-th from K on) and write no page; the "
                  "tasks of a job array do")
      ->type_name("K");
  command.callback([arguments, &exit_code] { exit_code = run_study(*arguments); });
}

}  // namespace monkeytree
