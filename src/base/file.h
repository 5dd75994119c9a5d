#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace monkeytree {

/// Largest input that is read, unless a format says otherwise.
inline constexpr uint64_t kMaxInputBytes = uint64_t{512} << 20;

/// A file, pipe or standard input ("-") that is read from front to back, in pieces, up to a limit.
/// The messages of its errors do not repeat the name, so that they can follow `name: `.
class InputFile {
 public:
  /// Refuses a directory, and a regular file longer than `limit` bytes before reading any of it.
  static absl::StatusOr<InputFile> open(const std::string& name, uint64_t limit = kMaxInputBytes);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// Reads up to `bytes` bytes into `buffer`; 0 is the end. Fails once more than the limit has
  /// come.
  absl::StatusOr<size_t> read(char* buffer, size_t bytes);

  /// Bytes of a regular file as it was opened; 0 where unknown (a pipe).
  uint64_t size_hint() const { return size_hint_; }

 private:
  InputFile(int descriptor, uint64_t limit, uint64_t size_hint)
      : descriptor_(descriptor), limit_(limit), size_hint_(size_hint) {}
  void close();

  int descriptor_ = -1;
  uint64_t limit_ = 0;
  uint64_t size_hint_ = 0;
  uint64_t consumed_ = 0;
};

/// All of a file or of standard input ("-").
absl::StatusOr<std::string> read_file(const std::string& name, uint64_t limit = kMaxInputBytes);

/// Who may do what with a file that is made or replaced, from its first byte on.
struct FileRights {
  std::optional<mode_t> mode;  ///< else that of the file before, or what the umask leaves
  bool keep_owner = false;     ///< and group, of the file before, as far as we may give it away
  std::optional<gid_t> group;  ///< must hold
};

/// Replaces the file `name` by `text`: written beside it, then renamed, so that a reader sees the
/// old file or the new one and a failure leaves the old one. What is no regular file (a pipe,
/// /dev/stdout) is written to directly; "-" is standard output.
absl::Status write_file(const std::string& name, std::string_view text,
                        const FileRights& rights = {});

/// Writes all of `text` to standard output. A reader that has gone away is kCancelled: the caller
/// ends in silence, without a complaint. Expects SIGPIPE to be ignored.
absl::Status write_stdout(std::string_view text);

/// The folder of a path with its final slash, or "" where it names none.
std::string folder_of(std::string_view path);

}  // namespace monkeytree
