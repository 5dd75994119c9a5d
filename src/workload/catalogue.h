#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "workload/model.h"

namespace monkeytree {

/// Models by name.
class Catalogue {
 public:
  /// The models that come with the program (catalogue.yaml beside this file).
  static const Catalogue& standard();

  /// Reads a user's YAML text in the same format. Findings carry `file:line`.
  static std::optional<Catalogue> parse(std::string_view text, std::string_view file,
                                        Diagnostics& diagnostics);

  /// Adds the models of `other`; one of the same name replaces ours.
  void add(const Catalogue& other);

  const std::vector<Model>& models() const { return models_; }
  const Model* find(std::string_view name) const;  ///< null where unknown

 private:
  std::vector<Model> models_;  ///< in file order
};

}  // namespace monkeytree
