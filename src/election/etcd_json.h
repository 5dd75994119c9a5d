#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "election/etcd.h"

/// What etcd's JSON gateway is asked and what it answers.
namespace monkeytree {

std::string json_of(const EtcdChange& change);
/// Of one page; `from`: the first key that is wanted, for pages after the first.
std::string json_of(const EtcdRange& range, const std::string& from, int limit);

struct EtcdPage {
  std::vector<EtcdPair> pairs;
  bool more = false;
};
// DataLoss where the text is no such answer.
absl::StatusOr<EtcdOutcome> parse_outcome(std::string_view text);
absl::StatusOr<EtcdPage> parse_page(std::string_view text);
/// Of lease/grant ("ID", "TTL") and of lease/keepalive (the same in "result").
absl::StatusOr<EtcdLease> parse_lease(std::string_view text);
/// What an answer that is none says for itself: its "error" or "message", or its front.
std::string etcd_complaint(std::string_view text);

}  // namespace monkeytree
