#include "planning/integer_program.h"

#include <Cbc_C_Interface.h>
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <memory>

namespace monkeytree {
namespace {

struct DeleteModel {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};
using Model = std::unique_ptr<Cbc_Model, DeleteModel>;

size_t at(int i) { return static_cast<size_t>(i); }

void set_parameters(Cbc_Model* model, double seconds, bool plain) {
  Cbc_setLogLevel(model, 0);
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "slog", "0");
  Cbc_setParameter(model, "threads", "0");
  Cbc_setParameter(model, "timeMode", "cpu");
  Cbc_setParameter(model, "seconds", fmt::format("{:.3f}", seconds).c_str());
  Cbc_setParameter(model, "ratioGap", "0");
  Cbc_setParameter(model, "allowableGap", "0");
  Cbc_setParameter(model, "heuristicsOnOff", "off");
  if (plain) {
    Cbc_setParameter(model, "preprocess", "off");
    Cbc_setParameter(model, "cuts", "off");
    return;
  }
  // On these programs all cuts but probing cost more than they save: a quarter of the time.
  for (const char* cuts : {"cliqueCuts", "gomoryCuts", "knapsackCuts", "flowCoverCuts",
                           "mixedIntegerRoundingCuts", "twoMirCuts", "zeroHalfCuts"}) {
    Cbc_setParameter(model, cuts, "off");
  }
}

}  // namespace

int IntegerProgram::add_column(int low, int high) {
  columns_.emplace_back(low, high);
  return static_cast<int>(columns_.size()) - 1;
}

void IntegerProgram::add_row(double low, double high, Terms terms) {
  rows_.push_back({low, high, std::move(terms)});
}

bool IntegerProgram::satisfied(const std::vector<int>& values) const {
  if (values.size() != columns_.size()) return false;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (values[c] < columns_[c].first || values[c] > columns_[c].second) return false;
  }
  for (const Row& row : rows_) {
    double sum = 0;  // exact: small integers
    for (const auto& [column, coefficient] : row.terms) sum += coefficient * values[at(column)];
    if (sum < row.low || sum > row.high) return false;
  }
  return true;
}

IntegerProgram::Solution IntegerProgram::solve(double seconds, bool plain) const {
  Solution out;
  if (seconds <= 0) return out;
  const int columns = static_cast<int>(columns_.size());
  std::vector<double> low, high, objective(columns_.size(), 0), row_low, row_high;
  for (const auto& [l, h] : columns_) {
    low.push_back(l);
    high.push_back(h);
  }
  for (const auto& [column, cost] : objective_) objective[at(column)] += cost;
  std::vector<std::vector<std::pair<int, double>>> by_column(columns_.size());
  for (size_t r = 0; r < rows_.size(); ++r) {
    row_low.push_back(rows_[r].low <= -kFree ? -DBL_MAX : rows_[r].low);
    row_high.push_back(rows_[r].high >= kFree ? DBL_MAX : rows_[r].high);
    for (const auto& [column, coefficient] : rows_[r].terms) {
      by_column[at(column)].emplace_back(static_cast<int>(r), coefficient);
    }
  }
  std::vector<int> starts{0}, indices;
  std::vector<double> values;
  for (const auto& entries : by_column) {
    for (const auto& [row, coefficient] : entries) {
      indices.push_back(row);
      values.push_back(coefficient);
    }
    starts.push_back(static_cast<int>(indices.size()));
  }

  const Model model(Cbc_newModel());
  Cbc_loadProblem(model.get(), columns, static_cast<int>(rows_.size()), starts.data(),
                  indices.data(), values.data(), low.data(), high.data(), objective.data(),
                  row_low.data(), row_high.data());
  for (int c = 0; c < columns; ++c) Cbc_setInteger(model.get(), c);
  set_parameters(model.get(), seconds, plain);
  Cbc_solve(model.get());

  if (Cbc_isProvenInfeasible(model.get()) != 0 ||
      Cbc_isInitialSolveProvenPrimalInfeasible(model.get()) != 0) {
    out.status = Status::kInfeasible;
    return out;
  }
  out.bound = Cbc_getBestPossibleObjValue(model.get());
  const double* best = Cbc_bestSolution(model.get());
  if (best == nullptr) return out;
  for (int c = 0; c < columns; ++c) {
    out.values.push_back(static_cast<int>(std::lround(best[c])));
  }
  if (!satisfied(out.values)) {
    out.values.clear();
    return out;
  }
  const bool proved = Cbc_isProvenOptimal(model.get()) != 0;
  out.status = proved ? Status::kOptimal : Status::kFeasible;
  if (proved) {
    out.bound = 0;
    for (const auto& [column, cost] : objective_) out.bound += cost * out.values[at(column)];
  }
  return out;
}

}  // namespace monkeytree
