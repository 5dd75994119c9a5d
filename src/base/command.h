#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Running other programs: by their arguments, never through a shell, and never for longer than
/// they were given.
namespace monkeytree {

/// Whose rights a program gets.
struct UserIds {
  std::string name, home;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

/// NotFound where the system knows no such user.
absl::StatusOr<UserIds> find_user(const std::string& name);

/// The program of that name in the first of the folders, parted by ':', that has it. NotFound.
absl::StatusOr<std::string> find_in_path(const std::string& name, const std::string& path);

struct Command {
  std::vector<std::string> arguments;  ///< program first; without a slash it is looked for in PATH
  std::map<std::string, std::string> environment;  ///< all of it
  std::string folder;                              ///< it starts in; "": as we are
  std::string input;                               ///< standard input
  size_t output_limit = size_t{1} << 20;           ///< bytes of output and errors together
  std::optional<UserIds> user;                     ///< nullopt: as we are
};

/// How a program ended.
struct CommandResult {
  int exit_code = 0;  ///< 128 + signal where it was killed
  std::string out, err;
};

/// Runs the program to its end, in a process group of its own, which is killed at the deadline; the
/// program is asked to end (SIGTERM) when the calling thread dies. Output of grandchildren that
/// live on is not waited for.
///
/// Errors: DeadlineExceeded, ResourceExhausted (more output than the limit; killed), NotFound (no
/// such program), Internal (could not be started; the message says why). Safe from many threads.
absl::StatusOr<CommandResult> run_command(const Command& command,
                                          std::chrono::steady_clock::time_point deadline);

/// Starts the program in a session of its own, where it outlives us, and does not wait for it.
/// Returns its process id. Standard input is empty, output and errors go to `log_file`, appended
/// ("": nowhere). `output_limit` and `input` mean nothing. Errors: NotFound, Internal.
absl::StatusOr<pid_t> start_detached(const Command& command, const std::string& log_file);

}  // namespace monkeytree
