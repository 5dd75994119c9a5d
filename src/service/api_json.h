#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/controller.h"
#include "control/journal.h"

/// What the API answers, as JSON. docs/api.md and openapi.json say what each field means.
namespace monkeytree {

/// `mode` stands in place of the controller's where it is not "".
std::string status_json(const ControllerView& view, double now_s, bool insecure,
                        std::string_view mode = "");
/// Degree and bound of each rack.
std::string fragmentation_json(const ControllerView& view);
std::string plans_json(const std::vector<PlanEntry>& plans);
/// With snapshot-free plan, decision, migrations, steps, and the text of explain().
std::string plan_json(const PlanEntry& plan, const std::vector<Migration>& migrations,
                      const std::vector<StepEntry>& steps);
std::string routes_json(const ControllerView& view);
std::string agents_json(const ControllerView& view);
std::string event_json(const Event& event);  ///< one line
std::string history_json(const std::vector<Event>& events);
std::string audit_json(const std::vector<AuditEntry>& entries);

}  // namespace monkeytree
