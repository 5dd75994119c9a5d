#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "state/arena.h"
#include "state/fd.h"
#include "state/staging.h"

namespace monkeytree {

/// The folder in which staged states are files, each named for its key. One server at a time has
/// it. What makes a state whole is the commit word of its arena, written last.
class StagingFolder {
 public:
  static absl::StatusOr<std::unique_ptr<StagingFolder>> open(const std::string& folder,
                                                             uint64_t quota_bytes);
  /// The folder goes too, where nothing is in it.
  ~StagingFolder();
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  struct Kept {
    std::string key;
    std::unique_ptr<Arena> arena;
  };
  /// The states that are whole and whose checksums hold; `found` also tells of the others, of which
  /// those that never were whole are removed (who sent them still has them) and damaged ones are
  /// put aside. An error, with nothing touched from there on, where one cannot be looked at for
  /// want of memory, descriptors or rights. O(bytes).
  absl::StatusOr<std::vector<Kept>> recover(std::vector<FoundState>& found) const;

  /// Where the state of a key is. kInvalidArgument: a key that is too long to be a name.
  absl::StatusOr<std::string> file_of(std::string_view key) const;
  void remove(std::string_view key) const;

 private:
  StagingFolder(std::string folder, Fd lock) : folder_(std::move(folder)), lock_(std::move(lock)) {}

  const std::string folder_;
  const Fd lock_;
};

}  // namespace monkeytree
