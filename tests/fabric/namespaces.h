#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "state/fd.h"

/// Network namespaces that have no name: each lives as long as somebody holds its descriptor or
/// runs inside it, so that the kernel removes them however their holder ends.
namespace monkeytree {

/// A new namespace with its loopback down.
absl::StatusOr<Fd> new_namespace();

/// Calls `what` in a thread of its own that has entered the namespace, and waits for its end.
/// Sockets made there, and programs started there, stay in it. Internal: it could not be entered.
absl::Status inside_namespace(int space, const std::function<void()>& what);

/// A process, told apart from a later one of the same number.
struct ProcessName {
  pid_t process = 0;
  unsigned long long start = 0;  ///< clock ticks since the machine started
  friend bool operator==(const ProcessName&, const ProcessName&) = default;
};

/// start is 0 where there is no such process, or it has ended and nobody has waited for it yet.
ProcessName name_of_process(pid_t process);

/// The number of the namespace behind a path like /proc/PID/ns/net; 0 where there is none.
ino_t namespace_number(const std::string& path);

/// Paths of the namespaces that a process holds by descriptors: /proc/PID/fd/N.
std::vector<std::string> held_namespaces(pid_t process);

/// All processes of the machine.
std::vector<pid_t> all_processes();

}  // namespace monkeytree
