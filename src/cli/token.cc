#include "cli/token.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/common.h"
#include "service/tokens.h"
#include "state/fd.h"

namespace monkeytree {
namespace {

constexpr const char* kUsualFile = "/etc/monkeytree/tokens";

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree token add ann --role operate --out ~/.monkeytree-token\n"
    "  monkeytree token add grafana --role read      the secret, printed once\n"
    "  monkeytree token list\n"
    "  monkeytree token revoke ann                   at once, no restart\n"
    "\n"
    "The controller's configuration names the file: tokens: /etc/monkeytree/tokens.\n"
    "It holds no secret, only digests. Roles: read; approve, which also cancels\n"
    "plans; operate, which also pauses. docs/operating.md tells the rest.";

struct TokenArguments {
  std::string name, role = "read", file = kUsualFile, out;
};

int refuse(std::string_view message) {
  print_error(message);
  return kExitBadInput;
}

std::string today() {
  const time_t now = time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:%Y-%m-%d}", utc);
}

/// Two who change the file at once do so one after the other.
Fd lock_folder_of(const std::string& file) {
  const std::string folder = folder_of(file);
  Fd lock(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.valid()) flock(lock.get(), LOCK_EX);
  return lock;
}

/// Writes the tokens for their owner and the group that had the file before; a new file's is the
/// controller's, where there is one.
absl::Status write_for_controller(const std::string& file, const std::vector<TokenEntry>& tokens) {
  FileRights rights;
  struct stat before {};
  if (stat(file.c_str(), &before) == 0) {
    rights.group = before.st_gid;
  } else {
    rights.mode = 0640;
    const struct group* const ours = getgrnam("monkeytree");
    if (ours != nullptr && geteuid() == 0) rights.group = ours->gr_gid;
  }
  return write_file(file, write_tokens(tokens), rights);
}

/// The file's entries; none where it is not there yet and may be made. nullopt after a message.
std::optional<std::vector<TokenEntry>> entries_of(const std::string& file, bool may_be_new) {
  absl::StatusOr<std::vector<TokenEntry>> entries = read_tokens(file);
  if (entries.ok()) return *std::move(entries);
  if (may_be_new && absl::IsNotFound(entries.status())) return std::vector<TokenEntry>();
  print_error(message_of(entries.status()));
  return std::nullopt;
}

int run_add(const TokenArguments& arguments) {
  if (!is_token_name(arguments.name)) {
    return refuse(
        fmt::format("NAME: expected letters, digits and ._@-, found {}", quote(arguments.name)));
  }
  if (!arguments.out.empty() && std::filesystem::exists(arguments.out)) {
    return refuse(fmt::format("{} is there already; move it away first", arguments.out));
  }
  const Fd lock = lock_folder_of(arguments.file);
  std::optional<std::vector<TokenEntry>> entries = entries_of(arguments.file, true);
  if (!entries) return kExitBadInput;
  for (const TokenEntry& entry : *entries) {
    if (entry.name != arguments.name) continue;
    return refuse(
        fmt::format("{} has a token already; to give a new one: monkeytree token revoke "
                    "{} first",
                    entry.name, entry.name));
  }
  const std::string secret = draw_secret();
  if (secret.empty()) {
    print_error("the system gives no random numbers");
    return kExitFailed;
  }
  entries->push_back({arguments.name, *role_named(arguments.role), digest_of(secret), today()});
  // The secret first: one that nobody has would be of no use.
  if (!arguments.out.empty()) {
    if (absl::Status written = write_file(arguments.out, secret + "\n",
                                          {.mode = 0600, .keep_owner = false, .group = {}});
        !written.ok()) {
      print_error(fmt::format("{}: {}", arguments.out, message_of(written)));
      return kExitFailed;
    }
  }
  if (absl::Status written = write_for_controller(arguments.file, *entries); !written.ok()) {
    if (!arguments.out.empty()) std::filesystem::remove(arguments.out);
    print_error(fmt::format("{}: {}", arguments.file, message_of(written)));
    return kExitFailed;
  }
  if (arguments.out.empty()) return print_result(secret + "\n", kExitDone);
  return print_result(fmt::format("{} may {}; the token is in {} (MONKEYTREE_TOKEN_FILE)\n",
                                  arguments.name, arguments.role, arguments.out),
                      kExitDone);
}

int run_list(const TokenArguments& arguments) {
  const std::optional<std::vector<TokenEntry>> entries = entries_of(arguments.file, false);
  if (!entries) return kExitBadInput;
  if (entries->empty()) return print_result("no tokens\n", kExitDone);
  size_t width = 4;
  for (const TokenEntry& entry : *entries) width = std::max(width, entry.name.size());
  std::string text = fmt::format("{:<{}}  role     made\n", "name", width);
  for (const TokenEntry& entry : *entries) {
    text += fmt::format("{:<{}}  {:<7}  {}\n", entry.name, width, name_of(entry.role), entry.made);
  }
  return print_result(text, kExitDone);
}

int run_revoke(const TokenArguments& arguments) {
  const Fd lock = lock_folder_of(arguments.file);
  std::optional<std::vector<TokenEntry>> entries = entries_of(arguments.file, false);
  if (!entries) return kExitBadInput;
  const size_t gone = std::erase_if(
      *entries, [&](const TokenEntry& entry) { return entry.name == arguments.name; });
  if (gone == 0) {
    return refuse(fmt::format("{} has no token named {}", arguments.file, quote(arguments.name)));
  }
  if (absl::Status written = write_for_controller(arguments.file, *entries); !written.ok()) {
    print_error(fmt::format("{}: {}", arguments.file, message_of(written)));
    return kExitFailed;
  }
  return print_result(fmt::format("the token of {} is revoked\n", arguments.name), kExitDone);
}

CLI::App& add_verb(CLI::App& parent, const std::string& name, const std::string& description,
                   const std::shared_ptr<TokenArguments>& arguments) {
  CLI::App& command = add_command(parent, name, description, "");
  command.add_option("--tokens", arguments->file, "the file of the controller's configuration")
      ->type_name("FILE");
  return command;
}

}  // namespace

void add_token(CLI::App& app, int& exit_code) {
  CLI::App& token = add_command(app, "token", "who may do what by a controller's API", kExamples);
  token.require_subcommand(1);
  const auto arguments = std::make_shared<TokenArguments>();

  CLI::App& add = add_verb(token, "add", "draws a secret and gives it a role", arguments);
  add.add_option("NAME", arguments->name, "who will use it; stands in the audit log")->required();
  add.add_option("--role", arguments->role, "read (the default), approve or operate")
      ->check(CLI::IsMember({"read", "approve", "operate"}).description(""))
      ->type_name("ROLE");
  add.add_option("--out", arguments->out, "writes the secret there, for its owner only")
      ->type_name("FILE");
  add.callback([arguments, &exit_code] { exit_code = run_add(*arguments); });

  CLI::App& list = add_verb(token, "list", "names, roles and days", arguments);
  list.callback([arguments, &exit_code] { exit_code = run_list(*arguments); });

  CLI::App& revoke = add_verb(token, "revoke", "ends a token at once", arguments);
  revoke.add_option("NAME", arguments->name, "whose")->required();
  revoke.callback([arguments, &exit_code] { exit_code = run_revoke(*arguments); });
}

}  // namespace monkeytree
