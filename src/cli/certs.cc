#include "cli/certs.h"

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hostlist.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/certificate_folder.h"
#include "cli/common.h"
#include "identity/authority.h"
#include "identity/tls_files.h"
#include "wire/worker_protocol.h"

namespace monkeytree {
namespace {

using Folder = CertificateFolder;

constexpr const char* kDefaultFolder = "/etc/monkeytree/tls";
constexpr int kAuthorityDays = 3650, kDays = 365, kWithinDays = 30;
constexpr int64_t kDay_s = 86400;
/// The controller's machine knows it by these too.
constexpr const char* kLocalHosts[] = {"localhost", "127.0.0.1", "::1"};

struct Arguments {
  std::string folder = kDefaultFolder;
  std::vector<std::string> names;
  int days = kDays, within = kWithinDays;
  bool controller = false, authority = false;
};

/// Our own input is at fault, or the machine.
int fail(const absl::Status& status) {
  print_error(message_of(status));
  return absl::IsUnavailable(status) || absl::IsInternal(status) ? kExitFailed : kExitBadInput;
}

absl::Status exists(const Folder& folder, const std::string& name, std::string_view renew) {
  return absl::AlreadyExistsError(
      fmt::format("{}: is there already; monkeytree certs renew {} makes a new one for the same "
                  "names; for others move it and its key away first",
                  printable(folder.certificate_file(name)), renew));
}

absl::StatusOr<Credential> read_authority(const Folder& folder) {
  if (!folder.has(Folder::authority_name())) {
    return absl::FailedPreconditionError(
        fmt::format("{}: there is no CA; monkeytree certs ca makes one",
                    printable(folder.certificate_file(Folder::authority_name()))));
  }
  return folder.read(Folder::authority_name());
}

/// A new certificate and key, into the folder; the end of its time.
absl::StatusOr<int64_t> make(const Folder& folder, const Credential& authority,
                             const std::string& name, CertificateRole role,
                             const std::vector<std::string>& hosts, int days) {
  const absl::StatusOr<Credential> made = issue(authority, role, hosts, {unix_now_s(), days});
  if (!made.ok()) {
    return with_context(made.status(), printable(absl::IsFailedPrecondition(made.status())
                                                     ? folder.certificate_file("ca")
                                                     : folder.certificate_file(name)));
  }
  if (absl::Status status = folder.write(name, *made); !status.ok()) return status;
  return read_certificate(made->certificate)->until_s;
}

int run_authority(const Arguments& arguments) {
  const Folder folder(arguments.folder);
  if (folder.has(Folder::authority_name())) {
    return fail(exists(folder, Folder::authority_name(), "--ca"));
  }
  const absl::StatusOr<Credential> made = make_authority({unix_now_s(), arguments.days});
  if (!made.ok()) return fail(made.status());
  if (absl::Status status = folder.write(Folder::authority_name(), *made); !status.ok()) {
    return fail(status);
  }
  const Certificate contents = read_certificate(made->certificate).value();
  return print_result(
      fmt::format("made {}, in force until {}\n  {}  goes to every machine\n  {}  stays here: who "
                  "has it can pass as anybody\n",
                  describe(contents), utc(contents.until_s),
                  printable(folder.certificate_file(Folder::authority_name())),
                  printable(folder.key_file(Folder::authority_name()))),
      kExitDone);
}

int run_controller(const Arguments& arguments) {
  const Folder folder(arguments.folder);
  const std::string name = Folder::controller_name();
  if (folder.has(name)) return fail(exists(folder, name, "--controller"));
  const absl::StatusOr<Credential> authority = read_authority(folder);
  if (!authority.ok()) return fail(authority.status());
  std::vector<std::string> hosts = arguments.names;
  for (const char* local : kLocalHosts) {
    if (std::find(hosts.begin(), hosts.end(), local) == hosts.end()) hosts.emplace_back(local);
  }
  const absl::StatusOr<int64_t> until =
      make(folder, *authority, name, CertificateRole::kController, hosts, arguments.days);
  if (!until.ok()) return fail(until.status());
  return print_result(
      fmt::format("made {} for {}, in force until {}\n", printable(folder.certificate_file(name)),
                  absl::StrJoin(hosts, ", "), utc(*until)),
      kExitDone);
}

/// The nodes of host lists, each once.
absl::StatusOr<std::vector<std::string>> nodes_of(const std::vector<std::string>& lists) {
  absl::StatusOr<std::vector<std::string>> nodes = expand_hostlist(absl::StrJoin(lists, ","));
  if (!nodes.ok()) return with_context(nodes.status(), "NODES");
  std::sort(nodes->begin(), nodes->end());
  nodes->erase(std::unique(nodes->begin(), nodes->end()), nodes->end());
  for (const std::string& node : *nodes) {
    const std::string why = why_no_node(node);
    if (!why.empty()) {
      return absl::InvalidArgumentError(fmt::format("NODES: {} {}", quote(node), why));
    }
    if (const std::string no_host = why_no_host(node); !no_host.empty()) {
      return absl::InvalidArgumentError(fmt::format("NODES: {}: {}", quote(node), no_host));
    }
  }
  return nodes;
}

int run_nodes(const Arguments& arguments) {
  const Folder folder(arguments.folder);
  const absl::StatusOr<std::vector<std::string>> nodes = nodes_of(arguments.names);
  if (!nodes.ok()) return fail(nodes.status());
  const absl::StatusOr<Credential> authority = read_authority(folder);
  if (!authority.ok()) return fail(authority.status());
  std::vector<std::string> made, kept;
  int64_t until_s = 0;
  for (const std::string& node : *nodes) {
    const std::string name = Folder::node_name(node);
    if (folder.has(name)) {
      // Half a pair is of no use, and what is left of it may be somebody's mistake.
      if (const absl::StatusOr<Credential> whole = folder.read(name); !whole.ok()) {
        return fail(with_context(whole.status(), "move what is left of it away first"));
      }
      kept.push_back(node);
      continue;
    }
    const absl::StatusOr<int64_t> until =
        make(folder, *authority, name, CertificateRole::kNode, {node}, arguments.days);
    if (!until.ok()) return fail(until.status());
    until_s = *until;
    made.push_back(node);
  }
  std::string out;
  if (!made.empty()) {
    out += fmt::format("made {} in {}/nodes, in force until {}: {}\n",
                       counted(static_cast<long long>(made.size()), "certificate"),
                       printable(folder.path()), utc(until_s), compress_hostlist(made));
  }
  if (!kept.empty()) {
    out +=
        fmt::format("kept {} that {} there already (monkeytree certs renew makes new ones): {}\n",
                    kept.size(), kept.size() == 1 ? "is" : "are", compress_hostlist(kept));
  }
  return print_result(out, kExitDone);
}

int run_show(const Arguments& arguments) {
  const Folder folder(arguments.folder);
  const std::vector<std::string> names = folder.list();
  if (names.empty()) {
    return fail(absl::FailedPreconditionError(
        fmt::format("{}: there is no certificate here (*.crt); monkeytree certs ca makes the first",
                    printable(folder.path()))));
  }
  const int64_t now_s = unix_now_s();
  Table table({"file", "for", "until", "days", "remark"});
  for (const std::string& name : names) {
    const absl::StatusOr<Certificate> contents = folder.certificate(name);
    if (!contents.ok()) {
      table.add({name + ".crt", "", "", "", folder.remark(name, now_s)});
      continue;
    }
    const std::string whom = contents->authority || contents->hosts.empty()
                                 ? printable(contents->name)
                                 : printable(absl::StrJoin(contents->hosts, ", "));
    table.add({name + ".crt", whom, utc(contents->until_s).substr(0, 10),
               std::to_string((contents->until_s - now_s) / kDay_s), folder.remark(name, now_s)});
  }
  return print_result(table.text(Paint(colors_wanted())), kExitDone);
}

/// The CA with the key it has.
absl::Status renew_ca(const Folder& folder, int days) {
  const absl::StatusOr<Credential> old = read_authority(folder);
  if (!old.ok()) return old.status();
  const std::string file = folder.certificate_file(Folder::authority_name());
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  if (old->certificate.find(kBegin) != old->certificate.rfind(kBegin)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: holds several certificates, expected the CA's alone", printable(file)));
  }
  const absl::StatusOr<std::string> renewed = renew_authority(*old, {unix_now_s(), days});
  if (!renewed.ok()) return with_context(renewed.status(), printable(file));
  return folder.write_certificate(Folder::authority_name(), *renewed);
}

/// A controller's or a node's: a new key, for whom the old one was.
absl::Status renew(const Folder& folder, const Credential& authority, const std::string& name,
                   int days) {
  const absl::StatusOr<Certificate> old = folder.certificate(name);
  if (!old.ok()) return old.status();
  const CertificateRole role =
      name == Folder::controller_name() ? CertificateRole::kController : CertificateRole::kNode;
  return make(folder, authority, name, role, old->hosts, days).status();
}

/// What is to be renewed: what was named; where nothing was, what has little time left.
absl::StatusOr<std::vector<std::string>> choose(const Folder& folder, const Arguments& arguments) {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<std::string>> nodes = nodes_of(arguments.names);
  if (!nodes.ok()) return nodes.status();
  // The CA first: nothing outlives it.
  if (arguments.authority) names.push_back(Folder::authority_name());
  if (arguments.controller) names.push_back(Folder::controller_name());
  for (const std::string& node : *nodes) names.push_back(Folder::node_name(node));
  if (!names.empty()) return names;
  const int64_t limit_s = unix_now_s() + arguments.within * kDay_s;
  for (const std::string& name : folder.list()) {
    const bool ours = name == Folder::authority_name() || name == Folder::controller_name() ||
                      name.starts_with(Folder::node_name(""));
    const absl::StatusOr<Certificate> contents = folder.certificate(name);
    if (ours && (!contents.ok() || contents->until_s < limit_s)) names.push_back(name);
  }
  return names;
}

int run_renew(const Arguments& arguments) {
  const Folder folder(arguments.folder);
  const absl::StatusOr<std::vector<std::string>> names = choose(folder, arguments);
  if (!names.ok()) return fail(names.status());
  std::string out;
  for (const std::string& name : *names) {
    const bool is_ca = name == Folder::authority_name();
    absl::Status status;
    if (is_ca) {
      status = renew_ca(folder, std::max(arguments.days, kAuthorityDays));
    } else {
      const absl::StatusOr<Credential> authority = read_authority(folder);
      status =
          authority.ok() ? renew(folder, *authority, name, arguments.days) : authority.status();
    }
    if (!status.ok()) {
      // What was renewed before must be known.
      print_result(out, kExitDone);
      return fail(status);
    }
    out += fmt::format("renewed {}, in force until {}\n", printable(folder.certificate_file(name)),
                       utc(folder.certificate(name)->until_s));
  }
  if (out.empty()) out = fmt::format("nothing has less than {} days left\n", arguments.within);
  return print_result(out, kExitDone);
}

CLI::App& add_verb(CLI::App& certs, const std::string& name, const std::string& description,
                   const std::string& examples, const std::shared_ptr<Arguments>& arguments,
                   int& exit_code, const std::function<int(const Arguments&)>& run) {
  CLI::App& verb = add_command(certs, name, description, examples);
  verb.add_option("--folder", arguments->folder,
                  fmt::format("of the certificates; else {}", kDefaultFolder))
      ->type_name("FOLDER");
  verb.callback([arguments, run, &exit_code] { exit_code = run(*arguments); });
  return verb;
}

void add_days(CLI::App& verb, int& days, const std::string& what) {
  verb.add_option("--days", days, what)
      ->check(CLI::Range(1, 36500).description(""))
      ->type_name("N");
}

void add_making(CLI::App& certs, int& exit_code) {
  auto a = std::make_shared<Arguments>();
  a->days = kAuthorityDays;
  add_days(add_verb(certs, "ca", "makes the CA that signs all others",
                    "Examples:\n"
                    "  monkeytree certs ca                     once, on a machine that few reach\n"
                    "  monkeytree certs ca --folder tls --days 1825\n"
                    "\n"
                    "ca.crt goes to every machine; ca.key stays here, and is only needed to make\n"
                    "certificates.",
                    a, exit_code, run_authority),
           a->days, "in force for so many days; else 3650");
  a = std::make_shared<Arguments>();
  CLI::App& controller =
      add_verb(certs, "controller", "makes the controller's certificate",
               "Examples:\n"
               "  monkeytree certs controller head head.example.org 10.0.0.1\n"
               "\n"
               "Name all names and addresses by which agents, people and browsers call it;\n"
               "localhost, 127.0.0.1 and ::1 are always among them.",
               a, exit_code, run_controller);
  add_days(controller, a->days, "in force for so many days; else 365");
  controller.add_option("HOST", a->names, "a name or a numeric address of the controller")
      ->required()
      ->type_name("");
  a = std::make_shared<Arguments>();
  CLI::App& node =
      add_verb(certs, "node", "makes certificates for nodes",
               "Examples:\n"
               "  monkeytree certs node n[001-512]        nodes/n001.crt, nodes/n001.key, ...\n"
               "  monkeytree certs node \"$(sinfo -ho %N)\"\n"
               "\n"
               "Names as the scheduler has them. Those that have a certificate keep it. To each\n"
               "node go its two files and ca.crt, nothing else.",
               a, exit_code, run_nodes);
  add_days(node, a->days, "in force for so many days; else 365");
  node.add_option("NODES", a->names, "a host list such as n[1-64],login1")
      ->required()
      ->type_name("");
}

void add_keeping(CLI::App& certs, int& exit_code) {
  add_verb(certs, "show", "which certificates there are, and how long they last",
           "Examples:\n"
           "  monkeytree certs show\n"
           "  monkeytree certs show --folder tls",
           std::make_shared<Arguments>(), exit_code, run_show);
  const auto a = std::make_shared<Arguments>();
  CLI::App& renew =
      add_verb(certs, "renew", "makes new certificates and keys in the place of old ones",
               "Examples:\n"
               "  monkeytree certs renew                  what has less than 30 days left\n"
               "  monkeytree certs renew --within 90\n"
               "  monkeytree certs renew n[1-4] --controller\n"
               "                                          these, whatever they have left\n"
               "  monkeytree certs renew --ca             all it has signed stays good\n"
               "\n"
               "Controller and agents take up the new files by themselves, without a restart.\n"
               "The CA keeps its key; ca.crt then has to go to every machine again.",
               a, exit_code, run_renew);
  add_days(renew, a->days, "in force for so many days; else 365, the CA 3650");
  renew.add_option("--within", a->within, "days left that are too few; else 30")
      ->check(CLI::Range(0, 36500).description(""))
      ->type_name("N");
  renew.add_flag("--controller", a->controller, "the controller's");
  renew.add_flag("--ca", a->authority, "the CA's");
  renew.add_option("NODES", a->names, "a host list")->type_name("");
}

}  // namespace

void add_certs(CLI::App& app, int& exit_code) {
  CLI::App& command =
      add_command(app, "certs", "certificates by which controller and agents know each other",
                  "Examples:\n"
                  "  monkeytree certs ca                     1. the CA, once\n"
                  "  monkeytree certs controller head 10.0.0.1\n"
                  "                                          2. the controller's\n"
                  "  monkeytree certs node n[001-512]        3. the nodes'\n"
                  "  monkeytree certs show                   who has what, until when\n"
                  "  monkeytree certs renew                  from time to time, by cron\n"
                  "\n"
                  "docs/identity.md goes from nothing to mutual TLS with these.\n"
                  "Exit code: 0 done, 1 could not write, 2 bad usage, no CA, or there already.");
  command.require_subcommand(1);
  add_making(command, exit_code);
  add_keeping(command, exit_code);
}

}  // namespace monkeytree
