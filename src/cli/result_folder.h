#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace monkeytree {

/// A folder that a long run writes its results to, a log of lines while it goes on and the rest at
/// its end. Each file is written beside its place and renamed, so that what stands there is whole.
/// Messages of errors name the file.
class ResultFolder {
 public:
  /// Makes the folder where there is none, and begins the log. Fails where it cannot be written.
  static absl::StatusOr<ResultFolder> open(const std::string& path, const std::string& log);

  ResultFolder(ResultFolder&& other) noexcept;
  ResultFolder& operator=(ResultFolder&&) = delete;
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;
  ~ResultFolder();

  /// Appends a line to the log. After a failure the log keeps the lines that it has.
  void append(std::string_view line);
  /// Why the log could not be written; the first reason.
  const absl::Status& status() const { return status_; }

  /// Puts the log in its place: all of it or, after a failure, the whole lines that got there.
  absl::Status close_log();
  absl::Status write(const std::string& name, std::string_view text) const;

 private:
  ResultFolder(std::string path, std::string log, int descriptor)
      : path_(std::move(path)), log_(std::move(log)), descriptor_(descriptor) {}
  std::string name_of(const std::string& name) const { return path_ + "/" + name; }
  std::string part() const { return name_of(log_ + ".part"); }
  void flush();

  std::string path_, log_;
  int descriptor_;
  std::string buffer_;   // whole lines
  int64_t written_ = 0;  // bytes, of whole lines
  absl::Status status_;
};

}  // namespace monkeytree
