#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace monkeytree {

/// The Slurm job that a process runs in, as /proc/PID/cgroup names it; "" where it names none: no
/// proctrack/cgroup, no job, a container of its own. Slurm's cgroups are root's, so a process
/// cannot put itself into one; a folder of the same name elsewhere does not count.
std::string job_in_cgroups(std::string_view text);
std::string slurm_job_of(pid_t process);

}  // namespace monkeytree
