#include "service/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/file.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;

constexpr const char* kLeast = "scheduler: {kind: slurm, topology: t.conf}\n";

ServiceConfig sound(const std::string& text) {
  Diagnostics findings;
  const std::optional<ServiceConfig> config = parse_config(text, "c.yaml", findings);
  EXPECT_EQ(findings.text(), "");
  return config.value_or(ServiceConfig());
}

std::string faults(const std::string& text) {
  Diagnostics findings;
  EXPECT_FALSE(parse_config(text, "c.yaml", findings)) << text;
  return findings.text();
}

/// "policy/gain/pause_s" for each field, from lines without comments.
std::set<std::string> fields_of(const std::string& text) {
  std::set<std::string> fields;
  std::vector<std::pair<size_t, std::string>> open;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || line[indent] == '#') continue;
    const size_t colon = line.find(':');
    while (!open.empty() && open.back().first >= indent) open.pop_back();
    open.emplace_back(indent, line.substr(indent, colon - indent));
    std::string path;
    for (const auto& [depth, name] : open) path += (path.empty() ? "" : "/") + name;
    fields.insert(path);
  }
  return fields;
}

TEST(Config, TheExampleNamesEveryFieldWithItsDefault) {
  const std::string example =
      *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/packaging/controller.yaml");
  ServiceConfig defaults;
  defaults.slurm.topology = "/etc/slurm/topology.conf";
  EXPECT_EQ(write_config(sound(example)), write_config(defaults));
  EXPECT_EQ(fields_of(example), fields_of(write_config(defaults)));
  // The schedulers that stand there as comments.
  for (const auto& [kind, known] : {std::pair(SchedulerKind::kKubernetes, "kind: kubernetes"),
                                    {SchedulerKind::kEmulated, "kind: emulated"},
                                    {SchedulerKind::kRecorded, "kind: recorded"}}) {
    const size_t begin = example.rfind("# scheduler:", example.find(known));
    std::string part;
    std::istringstream lines(example.substr(begin));
    for (std::string line; std::getline(lines, line) && line.size() > 1;) {
      part += line.substr(2) + "\n";
    }
    ServiceConfig other;
    other.scheduler = kind;
    if (kind == SchedulerKind::kKubernetes) other.kubernetes.racks.source = "topograph";
    if (kind == SchedulerKind::kRecorded)
      other.recorded.snapshots = {"monday.json", "tuesday.json"};
    EXPECT_EQ(write_config(sound(part)), write_config(other));
    const std::set<std::string> named = fields_of(part);
    for (const std::string& field : fields_of(write_config(other))) {
      EXPECT_TRUE(!field.starts_with("scheduler") || named.contains(field)) << field;
    }
  }
}

TEST(Config, TheDocsNameEveryField) {
  const std::string docs = *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/docs/operating.md");
  for (const SchedulerKind kind : {SchedulerKind::kSlurm, SchedulerKind::kKubernetes,
                                   SchedulerKind::kEmulated, SchedulerKind::kRecorded}) {
    ServiceConfig config;
    config.scheduler = kind;
    for (const std::string& field : fields_of(write_config(config))) {
      const std::string name = field.substr(field.rfind('/') + 1);
      if (field.starts_with("steps/")) continue;  // in one row
      EXPECT_THAT(docs, testing::ContainsRegex("[`.]" + name + "[`.]")) << field;
    }
  }
}

TEST(Config, EveryFieldIsRead) {
  const std::string text = R"(mode: enforce
scheduler:
  kind: slurm
  topology: "/a b/t.yaml"
  topology_name: "east"
  uplinks: "16"
  programs: "/opt/slurm/bin"
  slurm_conf: "/opt/slurm/etc/slurm.conf"
  books: merge
  slurmrestd: "/run/slurmrestd/socket"
  slurmrestd_version: "v0.0.40"
tls: none
listen:
  http: "10.0.0.1:80"
  agents: "[fd00::1]:0"
insecure: true
journal: "j.db"
tokens: "/etc/tokens"
log_level: debug
etcd:
  endpoints: ["https://etcd-1:2379", "https://etcd-2:2379"]
  prefix: "/other"
  name: "head1"
  lease_s: 20
  tls: {ca: "/e/ca.crt", certificate: "/e/a.crt", key: "/e/a.key"}
poll_s: 5.5
coalesce_ms: 20
planning:
  observe_limit_s: 21
  plan_limit_s: 3
  plans_at_once: 5
history:
  plans: 7
  events: 8
policy:
  opt_out: "off"
  only_partitions: ["a", "b"]
  never_partitions: ["c"]
  only_users: ["d"]
  never_users: ["e", "f"]
  moves_per_job: 9
  moves_per_hour: 10
  cool_down_s: 11
  min_age_s: 12
  min_left_s: 13
  loop_s: 14
  pay_back: 1.5
  windows: ["Mon-Fri 20:00-06:00", "Sat-Mon 00:00-24:00", "daily 12:30-13:00", "Sun 01:00-02:00"]
  gain:
    communication: 0.5
    pause_s: 15
    assumed_left_s: 16
steps:
  hold_s: 1
  prepare_s: 2
  pause_s: 3
  transfer_s: 4
  restore_s: 5
  resume_s: 6
  release_s: 7
  roll_back_s: 8
  first_retry_s: 0.25
  longest_retry_s: 9
)";
  const ServiceConfig config = sound(text);
  EXPECT_EQ(write_config(config), text);
  // None of them is the default: had it not been read, the above would not notice. But for tls,
  // which `insecure: true` excludes.
  ServiceConfig defaults;
  std::istringstream lines(write_config(defaults));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(":") || line == "tls: none" || line == "etcd: none" ||
        line.find("kind:") != std::string::npos)
      continue;
    EXPECT_THAT("\n" + text, testing::Not(HasSubstr("\n" + line + "\n")));
  }
  EXPECT_EQ(config.agents.host, "fd00::1");
  EXPECT_EQ(config.rules.policy.windows.size(), 4U);
  EXPECT_EQ(config.rules.steps.first_retry, StepLimits::Milliseconds(250));
}

TEST(Config, DefaultsAreTheSafeOnes) {
  const ServiceConfig config = sound(kLeast);
  EXPECT_EQ(config.rules.mode, Mode::kObserve);
  EXPECT_FALSE(config.insecure);
  EXPECT_TRUE(is_loopback(config.http.host));
  EXPECT_TRUE(is_loopback(config.agents.host));
  EXPECT_EQ(config.tokens, "");
}

TEST(Config, FaultsSayWhere) {
  EXPECT_THAT(
      faults("mode: force\n" + std::string(kLeast) + "polls: 3\npolicy: {gain: {x: 1}}\n"),
      testing::AllOf(HasSubstr("c.yaml:1: /mode: expected one of observe, recommend, enforce"),
                     HasSubstr("c.yaml:3: /polls: unknown key, expected one of mode, "),
                     HasSubstr("c.yaml:4: /policy/gain/x: unknown key")));
  EXPECT_THAT(faults("mode: observe\n"), HasSubstr("no scheduler, expected scheduler: {kind"));
  EXPECT_THAT(faults("scheduler: {topology: x}\n"), HasSubstr("no kind, expected slurm"));
  EXPECT_THAT(faults("scheduler: {kind: slurm}\n"), HasSubstr("no topology, expected"));
  EXPECT_THAT(faults("scheduler: {kind: recorded}\n"), HasSubstr("no snapshots"));
  EXPECT_THAT(faults("scheduler: {kind: recorded, snapshots: []}\n"), HasSubstr("a list of files"));
  EXPECT_THAT(faults("scheduler: {kind: emulated, topology: x}\n"), HasSubstr("unknown key"));
  EXPECT_THAT(faults("scheduler: {kind: kubernetes}\n"),
              HasSubstr("c.yaml:1: /scheduler: racks: expected a rack label, or one of topograph"));
  EXPECT_THAT(faults("scheduler: {kind: kubernetes, racks: eks, rack_label: x}\n"),
              HasSubstr("both a source of racks and a rack label"));
  EXPECT_THAT(faults(std::string(kLeast) + "policy:\n  windows: [sometimes]\n"),
              HasSubstr("c.yaml:3: /policy/windows/0: expected a time of the week"));
  EXPECT_THAT(faults(std::string(kLeast) + "steps: {first_retry_s: 50}\n"),
              HasSubstr("longest_retry_s is shorter"));
  EXPECT_THAT(faults(std::string(kLeast) + "journal: none\n"), HasSubstr("expected a file"));
  EXPECT_THAT(faults(std::string(kLeast) + "poll_s: -1\n"), HasSubstr("/poll_s: expected"));
  EXPECT_THAT(faults(""), HasSubstr("c.yaml"));
}

TEST(Config, OnlyLoopbackUnlessInsecure) {
  for (const char* address :
       {"0.0.0.0:80", "10.0.0.1:80", "\"[::]:80\"", "node1:80", "127.0.0.1.evil:80"}) {
    const std::string text = std::string(kLeast) + "listen: {http: " + address + "}\n";
    EXPECT_THAT(faults(text), HasSubstr("or insecure: true")) << address;
    EXPECT_TRUE(sound(text + "insecure: true\n").insecure);
  }
  EXPECT_EQ(sound(std::string(kLeast) + "listen: {agents: localhost:0}\n").agents.port, 0);
}

TEST(Config, TlsOpensOtherAddresses) {
  const std::string text = std::string(kLeast) + "listen: {http: 0.0.0.0:80, agents: node1:81}\n";
  const std::string tls = "tls: {ca: a.crt, certificate: b.crt, key: b.key}\n";
  const ServiceConfig config = sound(text + tls);
  EXPECT_EQ(config.tls, (TlsFiles{"a.crt", "b.crt", "b.key"}));
  EXPECT_FALSE(config.insecure);
  EXPECT_EQ(sound(write_config(config)).tls, config.tls);
  EXPECT_THAT(faults(text + "tls: none\n"), HasSubstr("or tls, or insecure: true"));
  EXPECT_THAT(faults(text + tls + "insecure: true\n"),
              HasSubstr("/tls: expected either tls or insecure: true, found both"));
  EXPECT_THAT(faults(std::string(kLeast) + "tls: {ca: a.crt, key: b.key}\n"),
              HasSubstr("/tls: no certificate, expected tls: {ca: FILE, certificate: FILE, "));
  EXPECT_THAT(faults(std::string(kLeast) + "tls: /etc/tls\n"), HasSubstr("/tls: "));
  // As the example shows it.
  const std::string example =
      *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/packaging/controller.yaml");
  std::istringstream lines(example.substr(example.find("# tls:\n")));
  std::string shown;
  for (std::string line; std::getline(lines, line) && line.starts_with("# ");) {
    shown += line.substr(2) + "\n";
  }
  EXPECT_EQ(sound(std::string(kLeast) + shown).tls,
            (TlsFiles{"/etc/monkeytree/tls/ca.crt", "/etc/monkeytree/tls/controller.crt",
                      "/etc/monkeytree/tls/controller.key"}));
}

TEST(Config, Etcd) {
  const std::string rest = "scheduler: {kind: emulated}\n";
  EXPECT_FALSE(sound(rest).etcd.configured());
  const ServiceConfig config = sound(rest +
                                     "etcd: {endpoints: [\"http://10.0.0.1:2379\", "
                                     "\"https://e2:2379\"], prefix: /mt, name: head1, lease_s: 5, "
                                     "tls: {ca: /a, certificate: /b, key: /c}}\n");
  EXPECT_EQ(config.etcd.access.endpoints,
            (std::vector<std::string>{"http://10.0.0.1:2379", "https://e2:2379"}));
  EXPECT_EQ(config.etcd.prefix, "/mt");
  EXPECT_EQ(config.etcd.name, "head1");
  EXPECT_EQ(config.etcd.lease_s, 5);
  EXPECT_EQ(config.etcd.access.tls.key, "/c");
  EXPECT_EQ(sound(write_config(config)).etcd, config.etcd);
  EXPECT_THAT(faults(rest + "etcd: {}\n"), HasSubstr("no endpoints"));
  EXPECT_THAT(faults(rest + "etcd: {endpoints: [\"10.0.0.1:2379\"]}\n"),
              HasSubstr("http://HOST:PORT"));
  EXPECT_THAT(faults(rest + "etcd: {endpoints: [\"http://a:1\"], prefix: mt/}\n"),
              HasSubstr("/monkeytree"));
  EXPECT_THAT(faults(rest + "etcd: {endpoints: [\"http://a:1\"], lease_s: 1}\n"), HasSubstr("2"));
  // Half a lease is all that a step in Slurm's books gets.
  const std::string slurm = "etcd: {endpoints: [\"http://a:1\"], lease_s: 5}\n";
  EXPECT_THAT(faults(kLeast + slurm), HasSubstr("expected at least 6"));
  EXPECT_EQ(sound(rest + slurm).etcd.lease_s, 5);
}

TEST(Config, Addresses) {
  EXPECT_EQ(parse_address("[::1]:7")->host, "::1");
  EXPECT_EQ(to_string(*parse_address("[::1]:7")), "[::1]:7");
  EXPECT_EQ(to_string(*parse_address("a-b.c:65535")), "a-b.c:65535");
  for (const char* text :
       {"", "a", ":1", "a:", "a:x", "a:65536", "a:-1", "::1:7", "a b:1", "[]:1", "a/b:1", "a:1 "}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"})
    EXPECT_TRUE(is_loopback(host));
  for (const char* host :
       {"", "128.0.0.1", "127.0.0.1.x", "127.a.b.c", "127", "localhost.evil", "127.0.0"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace monkeytree
