#include "slurm_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

namespace monkeytree {
namespace {

constexpr std::array<std::pair<SlurmFlavour, std::string_view>, 3> kFlavours = {
    {{SlurmFlavour::kCompanion, "companion"},
     {SlurmFlavour::kMerge, "merge"},
     {SlurmFlavour::kMergeExclusive, "merge-exclusive"}}};

bool write_text(const std::string& path, const std::string& text, mode_t mode = 0644) {
  std::ofstream out(path);
  out << text;
  out.close();
  return out.good() && chmod(path.c_str(), mode) == 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string full = name.data();
  return full.substr(0, full.find('.'));
}

std::string_view key_of(std::string_view line) { return line.substr(0, line.find('=')); }

/// Lines of slurm.conf; a later setting of the same key replaces an earlier one.
class Settings {
 public:
  void add(const std::string& line) {
    const auto same = [&](const std::string& old) { return key_of(old) == key_of(line); };
    lines_.erase(std::remove_if(lines_.begin(), lines_.end(), same), lines_.end());
    lines_.push_back(line);
  }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += line + "\n";
    return out;
  }

 private:
  std::vector<std::string> lines_;
};

void add_places(const SlurmClusterOptions& options, const SlurmPorts& ports,
                const std::string& folder, Settings& conf) {
  conf.add("ClusterName=lab");
  conf.add(fmt::format("SlurmctldHost={}({})", host_name(), options.address));
  conf.add(fmt::format("SlurmctldPort={}", ports.controller));
  conf.add("SlurmUser=root");
  conf.add("SlurmdUser=root");
  conf.add("AuthType=auth/munge");
  conf.add(fmt::format("AuthInfo=socket={}/munge.sock", folder));
  conf.add("CredType=cred/munge");
  conf.add(fmt::format("StateSaveLocation={}/state", folder));
  conf.add(fmt::format("SlurmdSpoolDir={}/spool/%n", folder));
  conf.add(fmt::format("SlurmctldPidFile={}/pid/slurmctld", folder));
  conf.add(fmt::format("SlurmdPidFile={}/pid/%n", folder));
  conf.add(fmt::format("SlurmctldLogFile={}/log/slurmctld", folder));
  conf.add(fmt::format("SlurmdLogFile={}/log/%n", folder));
}

void add_plugins(Settings& conf) {
  conf.add("ProctrackType=proctrack/linuxproc");
  conf.add("TaskPlugin=task/none");
  conf.add("SwitchType=switch/none");
  conf.add("MpiDefault=none");
  conf.add("JobAcctGatherType=jobacct_gather/none");
  conf.add("JobCompType=jobcomp/none");
  conf.add("TopologyPlugin=topology/tree");
  conf.add("MailProg=/bin/true");
  conf.add("PropagateResourceLimits=NONE");
}

void add_scheduling(const SlurmClusterOptions& options, const SlurmPorts& ports,
                    const std::string& folder, Settings& conf) {
  conf.add("SchedulerType=sched/backfill");
  const std::string quick = "bf_interval=2,sched_interval=2,sched_min_interval=0";
  const bool gpus = options.flavour == SlurmFlavour::kCompanion;
  if (gpus) {
    conf.add("SelectType=select/cons_tres");
    conf.add("SelectTypeParameters=CR_Core");
    conf.add("GresTypes=gpu");
    conf.add("SchedulerParameters=" + quick);
  } else {
    const bool linear = options.flavour == SlurmFlavour::kMerge;
    conf.add(linear ? "SelectType=select/linear" : "SelectType=select/cons_tres");
    if (!linear) conf.add("SelectTypeParameters=CR_Core");
    conf.add("SchedulerParameters=permit_job_expansion," + quick);
  }
  conf.add("SlurmdParameters=config_overrides");  // nodes pretend to be larger than this machine
  conf.add("ReturnToService=2");
  conf.add("KillWait=2");
  conf.add("InactiveLimit=0");
  conf.add("MinJobAge=300");
  conf.add("MessageTimeout=30");
  conf.add("SlurmdTimeout=300");
  conf.add("TreeWidth=65533");
  if (!options.database) {
    conf.add("AccountingStorageType=accounting_storage/none");
    return;
  }
  conf.add("AccountingStorageType=accounting_storage/slurmdbd");
  conf.add("AccountingStorageHost=127.0.0.1");
  conf.add(fmt::format("AccountingStoragePort={}", ports.database));
  conf.add(fmt::format("AccountingStoragePass={}/munge.sock", folder));
  conf.add("AccountingStoreFlags=job_comment");
  if (gpus) conf.add("AccountingStorageTRES=gres/gpu");
}

std::string node_lines(const SlurmClusterOptions& options, const SlurmPorts& ports) {
  const bool gpus = options.flavour == SlurmFlavour::kCompanion;
  std::string out;
  size_t next = 0;
  for (const std::string& name : node_names(options)) {
    out += fmt::format(
        "NodeName={} NodeHostname={} NodeAddr={} Port={} CPUs=64 Boards=1 "
        "SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1000 {}State=UNKNOWN\n",
        name, host_name(), options.hosts.empty() ? "127.0.0.1" : options.hosts[next].address,
        ports.nodes[next], gpus ? fmt::format("Gres=gpu:{} ", kGpusPerNode) : "");
    ++next;
  }
  return out;
}

std::string topology(const SlurmClusterOptions& options) {
  std::string out;
  for (int r = 0; r < options.racks; ++r) {
    out += fmt::format("SwitchName=leaf{} Nodes=r{}n[0-{}]\n", r, r, options.nodes - 1);
  }
  return out + fmt::format("SwitchName=spine0 Switches=leaf[0-{}]\n", options.racks - 1);
}

/// Pretended GPUs are copies of /dev/null where such may be made, else a number.
std::string gres(const std::string& folder) {
  for (int g = 0; g < kGpusPerNode; ++g) {
    const std::string device = fmt::format("{}/dev/gpu{}", folder, g);
    if (mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) {
      return fmt::format("Name=gpu Count={}\n", kGpusPerNode);
    }
  }
  return fmt::format("Name=gpu File={}/dev/gpu[0-{}]\n", folder, kGpusPerNode - 1);
}

std::string database_conf(const SlurmPorts& ports, const std::string& folder) {
  return fmt::format(
      "DbdHost={}\nDbdAddr=127.0.0.1\nDbdPort={}\nSlurmUser=root\nAuthType=auth/munge\n"
      "AuthInfo=socket={}/munge.sock\nPidFile={}/pid/slurmdbd\nLogFile={}/log/slurmdbd\n"
      "StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=slurm\n"
      "StorageLoc=slurm_acct\n",
      host_name(), ports.database, folder, folder, folder);
}

}  // namespace

std::string_view name_of(SlurmFlavour flavour) {
  for (const auto& [known, name] : kFlavours) {
    if (known == flavour) return name;
  }
  return "";
}

std::optional<SlurmFlavour> flavour_of(std::string_view name) {
  for (const auto& [flavour, known] : kFlavours) {
    if (known == name) return flavour;
  }
  return std::nullopt;
}

std::vector<std::string> node_names(const SlurmClusterOptions& options) {
  std::vector<std::string> out;
  for (int r = 0; r < options.racks; ++r) {
    for (int n = 0; n < options.nodes; ++n) out.push_back(fmt::format("r{}n{}", r, n));
  }
  return out;
}

bool write_slurm_files(const SlurmClusterOptions& options, const SlurmPorts& ports,
                       const std::string& folder) {
  std::error_code error;
  for (const char* name : {"etc", "state", "spool", "pid", "log", "dev", "db", "rest"}) {
    std::filesystem::create_directories(folder + "/" + name, error);
  }
  for (const std::string& name : node_names(options)) {
    std::filesystem::create_directories(fmt::format("{}/spool/{}", folder, name), error);
  }
  Settings conf;
  add_places(options, ports, folder, conf);
  add_plugins(conf);
  add_scheduling(options, ports, folder, conf);
  // NodeName and PartitionName come last: their key repeats.
  std::string partition = "PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE State=UP";
  if (options.flavour == SlurmFlavour::kMergeExclusive) partition += " OverSubscribe=EXCLUSIVE";
  for (const std::string& line : options.settings) {
    if (key_of(line) == "PartitionName") {
      partition = line;
    } else {
      conf.add(line);
    }
  }
  const std::string etc = folder + "/etc/";
  return write_text(etc + "slurm.conf",
                    conf.text() + node_lines(options, ports) + partition + "\n") &&
         write_text(etc + "topology.conf", topology(options)) &&
         (options.flavour != SlurmFlavour::kCompanion ||
          write_text(etc + "gres.conf", gres(folder))) &&
         write_text(etc + "slurmdbd.conf", database_conf(ports, folder), 0600);
}

}  // namespace monkeytree
