#include "study/built_in.h"

#include <algorithm>

namespace monkeytree {

const std::vector<Study>& built_in_studies() {
  static const std::vector<Study> kStudies = [] {
    std::vector<Study> all;
    for (auto* declare :
         {traffic_studies, placement_studies, slowdown_studies, migration_studies}) {
      for (Study& study : declare()) all.push_back(std::move(study));
    }
    return all;
  }();
  return kStudies;
}

const Study* find_study(std::string_view name) {
  const std::vector<Study>& all = built_in_studies();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Study& study) { return study.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace monkeytree
