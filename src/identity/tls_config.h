#pragma once

#include <string>

#include "base/yaml.h"
#include "identity/tls_files.h"

namespace monkeytree {

/// `tls: {ca: FILE, certificate: FILE, key: FILE}`, or `tls: none`. Errors are reported where they
/// stand: all three are needed.
TlsFiles read_tls(const YamlValue& at);

/// Empty, or why the files do not do: all three or none, and not with `insecure`.
std::string why_no_tls_files(const TlsFiles& files, bool insecure);

}  // namespace monkeytree
