#include "inventory/slurm_rest.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The first complaint of a page of slurmrestd, "" where there is none.
std::string complaint_of(const std::string& page) {
  const nlohmann::json json = nlohmann::json::parse(page, nullptr, false);
  if (!json.is_object() || !json.contains("errors") || !json["errors"].is_array()) return "";
  for (const nlohmann::json& error : json["errors"]) {
    if (!error.is_object()) continue;
    for (const char* key : {"error", "description"}) {
      if (error.contains(key) && error[key].is_string()) return error[key].get<std::string>();
    }
  }
  return "";
}

}  // namespace

SlurmRest::SlurmRest(std::string socket, std::string version)
    : socket_(std::move(socket)), version_(std::move(version)) {}

absl::StatusOr<std::string> SlurmRest::get(const std::string& what, Deadline deadline) const {
  const std::string path = fmt::format("/slurm/{}/{}", version_, what);
  const auto failed = [&](std::string_view why) {
    return absl::UnavailableError(
        fmt::format("slurmrestd at {}: {}: {}", printable(socket_), printable(path), why));
  };
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  if (left <= milliseconds(0)) return failed("no time left to ask");
  httplib::Client client(socket_);
  client.set_address_family(AF_UNIX);
  client.set_connection_timeout(left);
  client.set_write_timeout(left);
  client.set_read_timeout(left);
  std::string page;
  bool too_long = false;
  const httplib::Result answer =
      client.Get(path, {{"Host", "localhost"}}, [&](const char* data, size_t size) {
        too_long = page.size() + size > kMaxInputBytes;
        if (too_long || steady_clock::now() > deadline) return false;
        page.append(data, size);
        return true;
      });
  if (too_long) return failed(fmt::format("more than {} bytes", kMaxInputBytes));
  if (!answer && steady_clock::now() > deadline) return failed("no whole answer in time");
  if (!answer) return failed(httplib::to_string(answer.error()));
  if (answer->status != 200) {
    const std::string complaint = printable(complaint_of(page));
    return failed(
        fmt::format("status {}{}{}", answer->status, complaint.empty() ? "" : ", ", complaint));
  }
  return page;
}

}  // namespace monkeytree
