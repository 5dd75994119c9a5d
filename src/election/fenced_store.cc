#include "election/fenced_store.h"

#include <utility>

namespace monkeytree {
namespace {

absl::Status no_leader() {
  return absl::FailedPreconditionError("this controller does not lead any more");
}

}  // namespace

absl::StatusOr<std::vector<EtcdPair>> FencedStore::read(const std::string& folder) {
  const EtcdRange range = under(folder);
  absl::StatusOr<std::vector<EtcdPair>> pairs = etcd_.read(range, election_.settings().lease);
  if (!pairs.ok()) return pairs;
  const std::lock_guard lock(mutex_);
  known_.erase(known_.lower_bound(range.key), known_.lower_bound(range.end));
  for (EtcdPair& pair : *pairs) {
    known_[pair.key] = pair.modified;
    pair.key.erase(0, election_.settings().prefix.size() + 1);
  }
  return pairs;
}

EtcdChange::Compare FencedStore::still_leads(int64_t token) const {
  return {election_.leader_key(), EtcdChange::Revision::kCreated, token};
}

bool FencedStore::leads_by(const EtcdOutcome& outcome, int64_t token) {
  for (const EtcdPair& pair : outcome.found) {
    if (pair.key == election_.leader_key() && pair.created == token) return true;
  }
  election_.disowned(token);
  return false;
}

absl::Status FencedStore::put(const std::string& key, const std::string& value) {
  constexpr int kTries = 4;
  const std::string full = path(key);
  for (int i = 0; i < kTries; ++i) {
    const int64_t token = election_.token();
    if (token == 0) return no_leader();
    EtcdChange change;
    {
      const std::lock_guard lock(mutex_);
      const auto known = known_.find(full);
      change.where = {
          still_leads(token),
          {full, EtcdChange::Revision::kModified, known == known_.end() ? 0 : known->second}};
    }
    change.puts = {{full, value}};
    change.otherwise = {{election_.leader_key(), ""}, {full, ""}};
    const absl::StatusOr<EtcdOutcome> outcome = etcd_.change(change, election_.call_limit());
    if (!outcome.ok()) return outcome.status();
    if (!outcome->done && !leads_by(*outcome, token)) return no_leader();
    int64_t now = outcome->done ? outcome->revision : 0;
    bool there = outcome->done;
    for (const EtcdPair& pair : outcome->found) {
      if (pair.key != full) continue;
      now = pair.modified;
      there = pair.value == value;  // by a try whose answer was lost
    }
    {
      const std::lock_guard lock(mutex_);
      known_[full] = now;
    }
    if (there) return absl::OkStatus();
  }
  return absl::AbortedError("somebody else writes " + full);
}

absl::Status FencedStore::exchange(const std::vector<EtcdRange>& removals,
                                   const std::vector<std::pair<std::string, std::string>>& puts) {
  const int64_t token = election_.token();
  if (token == 0) return no_leader();
  EtcdChange change;
  change.where = {still_leads(token)};
  change.removals = removals;
  for (const auto& [key, value] : puts) change.puts.push_back({path(key), value});
  change.otherwise = {{election_.leader_key(), ""}};
  const absl::StatusOr<EtcdOutcome> outcome = etcd_.change(change, election_.call_limit());
  if (!outcome.ok()) return outcome.status();
  if (!outcome->done) {
    leads_by(*outcome, token);
    return no_leader();
  }
  const std::lock_guard lock(mutex_);
  for (const EtcdRange& range : removals) {
    if (range.end.empty()) {
      known_.erase(range.key);
    } else {
      known_.erase(known_.lower_bound(range.key), known_.lower_bound(range.end));
    }
  }
  for (const auto& put : change.puts) known_[put.key] = outcome->revision;
  return absl::OkStatus();
}

}  // namespace monkeytree
