#include "election/etcd_json.h"

#include <absl/strings/escaping.h>
#include <absl/strings/numbers.h>
#include <simdjson.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr int64_t kLongestTtl_s = 9'000'000'000;  // of etcd

using Json = nlohmann::ordered_json;
using Element = simdjson::dom::element;

Json range_json(const EtcdRange& range) {
  Json out = {{"key", absl::Base64Escape(range.key)}};
  if (!range.end.empty()) out["range_end"] = absl::Base64Escape(range.end);
  return out;
}

Json compare_json(const EtcdChange::Compare& compare) {
  const bool created = compare.which == EtcdChange::Revision::kCreated;
  return {{"key", absl::Base64Escape(compare.key)},
          {"target", created ? "CREATE" : "MOD"},
          {"result", "EQUAL"},
          {created ? "create_revision" : "mod_revision", std::to_string(compare.equals)}};
}

/// 64-bit numbers come as text, and those that are 0 not at all; nullopt: something else.
std::optional<int64_t> number_at(Element at, std::string_view key) {
  Element value;
  if (at[key].get(value) != simdjson::SUCCESS) return 0;
  int64_t number = 0;
  if (value.get(number) == simdjson::SUCCESS) return number;
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS && absl::SimpleAtoi(std::string(text), &number))
    return number;
  return std::nullopt;
}

std::optional<std::string> bytes_at(Element at, std::string_view key) {
  std::string_view text;
  if (at[key].get(text) != simdjson::SUCCESS) return "";
  std::string out;
  if (!absl::Base64Unescape(std::string(text), &out)) return std::nullopt;
  return out;
}

absl::Status strange(std::string_view what) {
  return absl::DataLossError(
      "etcd's answer makes no sense: " + std::string(what) +
      "; is it etcd 3.4 or later, with its JSON gateway on (enable-grpc-gateway)?");
}

bool append_pairs(Element range, std::vector<EtcdPair>& pairs) {
  simdjson::dom::array list;
  if (range["kvs"].get(list) != simdjson::SUCCESS) return true;  // none
  for (const Element one : list) {
    const auto key = bytes_at(one, "key"), value = bytes_at(one, "value");
    const auto created = number_at(one, "create_revision"),
               modified = number_at(one, "mod_revision"), lease = number_at(one, "lease");
    if (!key || !value || !created || !modified || !lease) return false;
    pairs.push_back({*key, *value, *created, *modified, *lease});
  }
  return true;
}

/// A document that lives as long as what is read from it.
struct Document {
  simdjson::dom::parser parser;
  Element root;
  bool is_object(std::string_view text) {
    return parser.parse(text.data(), text.size()).get(root) == simdjson::SUCCESS &&
           root.is_object();
  }
};

}  // namespace

std::string json_of(const EtcdChange& change) {
  Json compare = Json::array(), success = Json::array(), failure = Json::array();
  for (const EtcdChange::Compare& one : change.where) compare.push_back(compare_json(one));
  for (const EtcdRange& one : change.removals) {
    success.push_back({{"request_delete_range", range_json(one)}});
  }
  for (const EtcdChange::Put& one : change.puts) {
    Json put = {{"key", absl::Base64Escape(one.key)}, {"value", absl::Base64Escape(one.value)}};
    if (one.lease != 0) put["lease"] = std::to_string(one.lease);
    success.push_back({{"request_put", std::move(put)}});
  }
  for (const EtcdRange& one : change.otherwise) {
    failure.push_back({{"request_range", range_json(one)}});
  }
  return Json{{"compare", compare}, {"success", success}, {"failure", failure}}.dump();
}

std::string json_of(const EtcdRange& range, const std::string& from, int limit) {
  Json out = range_json({from.empty() ? range.key : from, range.end});
  out["limit"] = std::to_string(limit);
  return out.dump();
}

absl::StatusOr<EtcdOutcome> parse_outcome(std::string_view text) {
  Document document;
  if (!document.is_object(text)) return strange("no JSON object");
  EtcdOutcome out;
  Element header;
  if (document.root["header"].get(header) != simdjson::SUCCESS) return strange("no header");
  const std::optional<int64_t> revision = number_at(header, "revision");
  if (!revision || *revision <= 0) return strange("no revision");
  out.revision = *revision;
  if (document.root["succeeded"].get(out.done) != simdjson::SUCCESS) out.done = false;
  if (out.done) return out;
  simdjson::dom::array responses;
  if (document.root["responses"].get(responses) != simdjson::SUCCESS) return out;
  for (const Element one : responses) {
    Element range;
    if (one["response_range"].get(range) != simdjson::SUCCESS) continue;
    if (!append_pairs(range, out.found)) return strange("a key that cannot be read");
  }
  return out;
}

absl::StatusOr<EtcdPage> parse_page(std::string_view text) {
  Document document;
  if (!document.is_object(text)) return strange("no JSON object");
  Element header;
  if (document.root["header"].get(header) != simdjson::SUCCESS) return strange("no header");
  EtcdPage page;
  if (!append_pairs(document.root, page.pairs)) return strange("a key that cannot be read");
  if (document.root["more"].get(page.more) != simdjson::SUCCESS) page.more = false;
  if (page.more && page.pairs.empty()) return strange("a page without keys");
  return page;
}

absl::StatusOr<EtcdLease> parse_lease(std::string_view text) {
  Document document;
  if (!document.is_object(text)) return strange("no JSON object");
  Element at = document.root, result;
  if (at["result"].get(result) == simdjson::SUCCESS) at = result;
  const std::optional<int64_t> id = number_at(at, "ID"), ttl = number_at(at, "TTL");
  if (!id || *id == 0 || !ttl || *ttl > kLongestTtl_s) return strange("no lease");
  return EtcdLease{*id, std::chrono::seconds(*ttl)};
}

std::string etcd_complaint(std::string_view text) {
  constexpr size_t kFront = 200;
  Document document;
  std::string_view message;
  if (document.is_object(text)) {
    for (const char* key : {"message", "error"}) {
      if (message.empty() && document.root[key].get(message) != simdjson::SUCCESS) message = {};
    }
  }
  if (message.empty()) message = text.substr(0, kFront);
  return printable(message);
}

}  // namespace monkeytree
