#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "election/election.h"

namespace monkeytree {

/// Keys in etcd that only the leader writes: each write is a transaction that compares the
/// create_revision of the leader's key with the writer's token, so that one who leads no more
/// writes nothing, whatever it believes. Thread-safe; a key has one writer at a time.
///
/// Errors: FailedPrecondition (it does not lead, by its own clock or by etcd's word), Unavailable
/// (etcd does not answer; the write may still come about, but none before it any more).
class FencedStore {
 public:
  /// Both outlive it.
  FencedStore(Etcd& etcd, Election& election) : etcd_(etcd), election_(election) {}

  /// All keys under `folder` ("plans/"), without the prefix; what is read is the base of the next
  /// writes. Whoever begins to lead reads first.
  absl::StatusOr<std::vector<EtcdPair>> read(const std::string& folder);
  /// Writes the key, unless it holds something else than this process last wrote or read there: a
  /// write that was given up and comes late does not undo a later one.
  absl::Status put(const std::string& key, const std::string& value);
  /// Removes ranges and writes keys that are never written again, in one transaction.
  absl::Status exchange(const std::vector<EtcdRange>& removals,
                        const std::vector<std::pair<std::string, std::string>>& puts);
  /// As a range of the store.
  EtcdRange under(const std::string& folder) const { return keys_under(path(folder)); }
  EtcdRange just(const std::string& key) const { return {path(key), ""}; }
  EtcdRange between(const std::string& from, const std::string& to) const {
    return {path(from), path(to)};
  }
  Election& election() { return election_; }

 private:
  std::string path(const std::string& key) const { return election_.settings().prefix + "/" + key; }
  EtcdChange::Compare still_leads(int64_t token) const;
  bool leads_by(const EtcdOutcome& outcome, int64_t token);

  Etcd& etcd_;
  Election& election_;
  std::mutex mutex_;
  std::map<std::string, int64_t> known_;  ///< key → its mod_revision, as last seen
};

}  // namespace monkeytree
