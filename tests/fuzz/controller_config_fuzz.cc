// Any bytes as the controller's configuration: faults that say where, or a configuration that is
// written and read back as the same, and that never opens up what was not said to be insecure.

#include <cstdint>
#include <string>
#include <string_view>

#include "bytes.h"
#include "service/config.h"

using namespace monkeytree;  // NOLINT: a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Diagnostics findings;
  const std::optional<ServiceConfig> config = parse_config(text, "fuzz", findings);
  require(config.has_value() != findings.has_errors());
  if (!config) return 0;
  require(!config->insecure || !config->tls.configured());
  require(config->insecure || config->tls.configured() ||
          (is_loopback(config->http.host) && is_loopback(config->agents.host)));
  const std::string written = write_config(*config);
  Diagnostics again;
  const std::optional<ServiceConfig> read = parse_config(written, "written", again);
  require(read.has_value() && write_config(*read) == written);
  return 0;
}
