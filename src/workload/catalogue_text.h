#pragma once

#include <string_view>

namespace monkeytree {

/// catalogue.yaml, put into the program when it is built.
extern const std::string_view kStandardCatalogue;

}  // namespace monkeytree
