#include "workload/generate.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "base/json.h"
#include "base/random.h"

namespace monkeytree {
namespace {

/// What is drawn from: models with the sizes that fit.
struct Choice {
  const Model* model = nullptr;
  uint64_t weight = 0;
  std::vector<int> gpus;
};

std::vector<Choice> choices(const Catalogue& catalogue, const GenerateOptions& options) {
  std::vector<Choice> out;
  const auto add = [&](const Model* model, int weight) {
    if (model == nullptr || weight <= 0) return;
    Choice choice{model, static_cast<uint64_t>(weight), {}};
    for (int gpus : model->gpus) {
      if (gpus <= options.cluster_gpus) choice.gpus.push_back(gpus);
    }
    if (!choice.gpus.empty()) out.push_back(std::move(choice));
  };
  for (const auto& [name, weight] : options.mix) add(catalogue.find(name), weight);
  if (options.mix.empty()) {
    for (const Model& model : catalogue.models()) add(&model, model.weight);
  }
  return out;
}

/// Mean of GPUs × time of an iteration.
double mean_gpu_us(const std::vector<Choice>& all, const IterationTime& iteration_us) {
  double sum = 0, weights = 0;
  for (const Choice& choice : all) {
    double of_model = 0;
    for (int gpus : choice.gpus) {
      of_model +=
          static_cast<double>(gpus) * static_cast<double>(iteration_us(*choice.model, gpus));
    }
    const double weight = static_cast<double>(choice.weight);
    sum += weight * (of_model / static_cast<double>(choice.gpus.size()));
    weights += weight;
  }
  return sum / weights;
}

const Choice& draw(const std::vector<Choice>& all, uint64_t weights, RandomSequence& random) {
  uint64_t at = random.below(weights);
  for (const Choice& choice : all) {
    if (at < choice.weight) return choice;
    at -= choice.weight;
  }
  return all.back();
}

}  // namespace

std::string generate_fault(const Catalogue& catalogue, const GenerateOptions& options) {
  if (!(options.load > 0) || !(options.load <= 1000)) {
    return fmt::format("load is {}, expected more than 0 (1 is all of the cluster's GPU time)",
                       options.load);
  }
  if (options.jobs < 0) return fmt::format("jobs is {}, expected 0 or more", options.jobs);
  if (options.cluster_gpus < 1) return "the cluster has no GPUs";
  if (options.min_iterations < 1 || options.max_iterations < options.min_iterations ||
      options.max_iterations > 1'000'000'000) {
    return fmt::format("iterations from {} to {}, expected 1 ≤ least ≤ most ≤ 10^9",
                       options.min_iterations, options.max_iterations);
  }
  for (const auto& [name, weight] : options.mix) {
    if (catalogue.find(name) == nullptr) {
      return fmt::format("mix: unknown model {}, expected one of the catalogue", quote(name));
    }
    if (weight < 0 || weight > 1'000'000) {
      return fmt::format("mix: the weight of {} is {}, expected 0 to 1000000", name, weight);
    }
  }
  if (choices(catalogue, options).empty()) {
    return fmt::format("no model with a weight fits a cluster of {} GPUs", options.cluster_gpus);
  }
  return "";
}

Trace generate_trace(const Catalogue& catalogue, const GenerateOptions& options,
                     const IterationTime& iteration_us) {
  assert(generate_fault(catalogue, options).empty());
  const std::vector<Choice> all = choices(catalogue, options);
  uint64_t weights = 0;
  for (const Choice& choice : all) weights += choice.weight;
  if (weights == 0) return {};
  const double mean_iterations =
      static_cast<double>(options.min_iterations + options.max_iterations) / 2;
  const double gap_us = mean_gpu_us(all, iteration_us) * mean_iterations /
                        (options.load * static_cast<double>(options.cluster_gpus));
  const uint64_t spread =
      static_cast<uint64_t>(options.max_iterations - options.min_iterations) + 1;

  RandomSequence random(options.seed);
  Trace trace;
  int64_t now = 0;
  for (int i = 0; i < options.jobs; ++i) {
    const Choice& choice = draw(all, weights, random);
    TraceJob job;
    job.submit_us = now;
    job.model = choice.model->name;
    job.gpus = choice.gpus[random.below(choice.gpus.size())];
    job.iterations = options.min_iterations + static_cast<int64_t>(random.below(spread));
    trace.push_back(std::move(job));
    now += std::llround(random.exponential() * gap_us);
  }
  return trace;
}

}  // namespace monkeytree
