#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "identity/authority.h"
#include "identity/certificate.h"

namespace monkeytree {

/// A folder of certificates and their keys as `monkeytree certs` keeps it: ca.crt, ca.key,
/// controller.crt, controller.key, nodes/NODE.crt, nodes/NODE.key. Keys are 0600. The messages of
/// errors name the file.
class CertificateFolder {
 public:
  explicit CertificateFolder(std::string path) : path_(std::move(path)) {}

  /// What the files are called without their endings, below the folder: "ca", "nodes/n17".
  static std::string authority_name() { return "ca"; }
  static std::string controller_name() { return "controller"; }
  static std::string node_name(const std::string& node) { return "nodes/" + node; }

  /// Certificate or key are there.
  bool has(const std::string& name) const;
  /// Names of the certificates in the folder and in nodes/, sorted.
  std::vector<std::string> list() const;
  absl::StatusOr<Certificate> certificate(const std::string& name) const;
  /// FailedPrecondition where one of the two is not there or cannot be read, or others may read
  /// the key.
  absl::StatusOr<Credential> read(const std::string& name) const;
  /// What a person should know of it; empty where all is well.
  std::string remark(const std::string& name, int64_t now_s) const;

  /// Puts both there, each written beside and renamed, the key first; folders are made. What was
  /// there keeps its owner and group, so that who could read the old key can read the new one.
  absl::Status write(const std::string& name, const Credential& credential) const;
  absl::Status write_certificate(const std::string& name, const std::string& pem) const;

  std::string certificate_file(const std::string& name) const {
    return path_ + "/" + name + ".crt";
  }
  std::string key_file(const std::string& name) const { return path_ + "/" + name + ".key"; }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace monkeytree
