#include "agent/asked_paths.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/command.h"
#include "base/json.h"
#include "base/status.h"

namespace monkeytree {

std::string questions_for_router(std::span<const PacketHeader> headers,
                                 const std::vector<size_t>& which, std::string_view interface) {
  std::string lines;
  for (const size_t i : which) {
    const PacketHeader& header = headers[i];
    // A source address with no interface would be one of the router's own.
    const std::string from =
        interface.empty() ? ""
                          : fmt::format(" from {} iif {}", ipv4_text(header.source), interface);
    lines +=
        fmt::format("route get {}{} ipproto {} sport {} dport {}\n", ipv4_text(header.destination),
                    from, header.protocol == Protocol::kTcp ? "tcp" : "udp", header.source_port,
                    header.destination_port);
  }
  return lines;
}

absl::StatusOr<std::vector<int>> read_router_answers(std::string_view text, size_t count,
                                                     const std::map<std::string, int>& uplinks) {
  std::vector<int> answers;
  // One JSON array after the other, a line each.
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
    if (!answer.is_array() || answer.size() != 1 || !answer[0].is_object()) {
      return absl::InvalidArgumentError(
          fmt::format("expected an answer of ip -json, found {}", quote(line)));
    }
    int uplink = -1;
    for (const char* key : {"dev", "gateway"}) {
      const auto value = answer[0].find(key);
      if (value == answer[0].end() || !value->is_string()) continue;
      const auto known = uplinks.find(value->get<std::string>());
      if (known != uplinks.end()) uplink = known->second;
    }
    answers.push_back(uplink);
  }
  if (answers.size() == count) return answers;
  return absl::InvalidArgumentError(
      fmt::format("expected {} answers, found {}", count, answers.size()));
}

absl::Status AskedPaths::ask(std::span<const PacketHeader> headers,
                             const std::vector<size_t>& which, std::vector<int>& uplinks) const {
  Command command;
  command.arguments = options_.command;
  for (const char* word : {"ip", "-json", "-batch", "-"}) command.arguments.emplace_back(word);
  const char* path = getenv("PATH");
  command.environment["PATH"] = fmt::format("{}:/usr/sbin:/sbin", path == nullptr ? "" : path);
  if (const char* home = getenv("HOME")) command.environment["HOME"] = home;
  command.input = questions_for_router(headers, which, options_.interface);
  const absl::StatusOr<CommandResult> result =
      run_command(command, std::chrono::steady_clock::now() + options_.patience);
  if (!result.ok()) return result.status();
  if (result->exit_code != 0) {
    std::string_view said = result->err;
    said = said.substr(0, said.find('\n'));
    return absl::UnavailableError(fmt::format("the router says {}", quote(said)));
  }
  const absl::StatusOr<std::vector<int>> answers =
      read_router_answers(result->out, which.size(), options_.uplinks);
  if (!answers.ok()) return answers.status();
  for (size_t i = 0; i < which.size(); ++i) uplinks[which[i]] = (*answers)[i];
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> AskedPaths::uplinks(std::span<const PacketHeader> headers) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> by_ends;
  for (size_t i = 0; i < headers.size(); ++i) {
    by_ends[{headers[i].source, headers[i].destination}].push_back(i);
  }
  std::vector<int> uplinks(headers.size(), -1);
  size_t failed = 0;
  absl::Status fault;
  for (const auto& [ends, which] : by_ends) {
    const absl::Status asked = ask(headers, which, uplinks);
    if (asked.ok()) continue;
    ++failed;
    fault =
        with_context(asked, fmt::format("{} to {}", ipv4_text(ends.first), ipv4_text(ends.second)));
  }
  if (failed > 0 && failed == by_ends.size()) {
    return absl::UnavailableError(std::string(message_of(fault)));
  }
  return uplinks;
}

}  // namespace monkeytree
