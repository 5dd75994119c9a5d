#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace monkeytree {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

/// What is known about an event, by name, in order.
using LogFields = std::vector<std::pair<std::string_view, std::string>>;

/// Where events go. Called from many threads.
using LogSink = std::function<void(LogLevel, std::string_view event, const LogFields&)>;

/// `event="worker came" worker=4711/0/3`: one line, safe on a terminal; values that need it are
/// quoted.
std::string log_line(std::string_view event, const LogFields& fields);

}  // namespace monkeytree
