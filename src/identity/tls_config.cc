#include "identity/tls_config.h"

#include <fmt/format.h>

namespace monkeytree {

TlsFiles read_tls(const YamlValue& at) {
  TlsFiles files;
  if (at.is("none")) return files;
  const YamlMap map = at.map({"ca", "certificate", "key"});
  const auto take = [&](std::string_view key, std::string& to) {
    if (const YamlValue* value = map.find(key)) {
      to = value->nonempty_string().value_or("");
    } else if (at.is_map()) {
      at.error(fmt::format("no {}, expected tls: {{ca: FILE, certificate: FILE, key: FILE}}", key));
    }
  };
  take("ca", files.ca);
  take("certificate", files.certificate);
  take("key", files.key);
  return files;
}

std::string why_no_tls_files(const TlsFiles& files, bool insecure) {
  const bool any = !files.ca.empty() || !files.certificate.empty() || !files.key.empty();
  const bool all = !files.ca.empty() && !files.certificate.empty() && !files.key.empty();
  if (any != all) return "expected ca, certificate and key, found only some of them";
  if (any && insecure) return "expected either tls or insecure: true, found both";
  return "";
}

}  // namespace monkeytree
