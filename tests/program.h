#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// What a run of the program left behind.
struct ProgramRun {
  int exit_code = -1;  ///< 128 + signal where it was killed
  std::string out, err;
};

/// How a run is set up besides its arguments.
struct ProgramSetting {
  std::string input;               ///< standard input, from a pipe
  size_t read_at_most = SIZE_MAX;  ///< bytes of output after which the reading end is closed
  std::string output_file;         ///< where standard output goes instead, for example /dev/full
  int interrupt_after_ms = 0;      ///< sends SIGINT then; 0 is never
  std::string interrupt_once;      ///< sends SIGINT once this folder holds a .json; "" is never
};

/// Runs the built program `monkeytree` to its end.
ProgramRun run_program(const std::vector<std::string>& arguments,
                       const ProgramSetting& setting = {});

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Writes a file and gives its path.
  std::string write(const std::string& name, std::string_view text) const;
  /// All of a file; empty where there is none.
  std::string read(const std::string& name) const;
  /// Names of what lies in it, sorted.
  std::vector<std::string> list() const;

 private:
  std::string path_;
};

}  // namespace monkeytree
