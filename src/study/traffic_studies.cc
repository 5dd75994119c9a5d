#include <fmt/format.h>

#include <array>

#include "study/built_in.h"
#include "study/study_report.h"

namespace monkeytree {
namespace {

/// What of a transformer decides how much it sends.
struct ModelShape {
  std::string_view name;
  double parameters;
  int layers;
  int hidden;
  double paper_tensor, paper_data, paper_pipeline;  ///< bytes, as the paper's Table 1 prints them
};
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr std::array kShapes = {
    ModelShape{"Llama3-70B", 70e9, 80, 8192, 35.8e12, 840e9, 48 * kGiB},
    ModelShape{"GPT3-175B", 175e9, 96, 12288, 68.8e12, 2.1e12, 72 * kGiB},
};
constexpr int kTensor = 8, kData = 4, kPipeline = 4, kBatch = 16, kSequence = 8192;
constexpr int kBytes = 2;  // bf16

/// Activations of one local batch between two layers.
double activation_bytes(const ModelShape& shape) {
  return double{kBytes} * kBatch * kSequence * shape.hidden;
}
/// A ring all-reduce of B bytes over r ranks: r·2(r−1)/r·B on all links together.
double ring_total(double bytes, int ranks) { return 2.0 * (ranks - 1) * bytes; }

double data_bytes(const ModelShape& shape) { return ring_total(kBytes * shape.parameters, kData); }
double pipeline_bytes(const ModelShape& shape) {
  return 2.0 * (kPipeline - 1) * kData * activation_bytes(shape);
}
double tensor_bytes(const ModelShape& shape) {
  return kData * 4.0 * shape.layers * ring_total(activation_bytes(shape), kTensor);
}

absl::StatusOr<Measurements> measure(const StudyCell& cell, const StopPredicate&) {
  for (const ModelShape& shape : kShapes) {
    if (shape.name != cell.text("transformer")) continue;
    return Measurements{.values = {{"tensor_bytes", tensor_bytes(shape)},
                                   {"data_bytes", data_bytes(shape)},
                                   {"pipeline_bytes", pipeline_bytes(shape)},
                                   {"paper_tensor_bytes", shape.paper_tensor},
                                   {"paper_data_bytes", shape.paper_data},
                                   {"paper_pipeline_bytes", shape.paper_pipeline}}};
  }
  return absl::NotFoundError("no such model");
}

void draw_traffic(const StudyResults& results, StudyReport& report) {
  BarChart chart{.title = "Bytes of one iteration, all GPUs together",
                 .caption =
                     "Tensor parallelism stays inside a node, on NVLink. Of what is on the "
                     "network nearly all is data parallelism, and its rings leave each rack "
                     "once.",
                 .y = {.label = "Bytes sent", .unit = "TB"},
                 .categories = {"tensor", "data", "pipeline"}};
  DataTable table{.title = "By the formulas above, and as the paper prints them",
                  .columns = {{"model"},
                              {"tensor", "TB"},
                              {"data", "GB"},
                              {"pipeline", "GiB"},
                              {"paper: tensor", "TB"},
                              {"paper: data", "GB"},
                              {"paper: pipeline", "GiB"},
                              {"data ÷ pipeline"}}};
  for (const std::string& model : results.axis("transformer")->values) {
    const auto bytes = [&](const char* metric) {
      return results.estimate(metric, {{"transformer", model}}).mean;
    };
    const double tensor = bytes("tensor_bytes"), data = bytes("data_bytes");
    const double pipeline = bytes("pipeline_bytes");
    chart.series.push_back(
        {.name = model, .bars = {{tensor / 1e12}, {data / 1e12}, {pipeline / 1e12}}});
    table.rows.push_back(
        {model, DataCell(tensor / 1e12, 1), DataCell(data / 1e9, 0), DataCell(pipeline / kGiB, 0),
         DataCell(bytes("paper_tensor_bytes") / 1e12, 1),
         DataCell(bytes("paper_data_bytes") / 1e9, 0),
         DataCell(bytes("paper_pipeline_bytes") / kGiB, 0), DataCell(data / pipeline, 1)});
  }
  report.page().heading("Formulas");
  report.page().paragraph(fmt::format(
      "T = {} GPUs tensor parallel, D = {} replicas, P = {} pipeline stages, {} GPUs. Local batch "
      "b = {}, sequence s = {}, 2 bytes a number (bf16). A model has p parameters, L layers of "
      "width h. A ring all-reduce of B bytes over r ranks sends 2(r − 1)·B in all.",
      kTensor, kData, kPipeline, kTensor * kData * kPipeline, kBatch, kSequence));
  report.page().list(
      {"Data: the gradients of the whole model, each shard over its own ring of D ranks: "
       "2(D − 1) · 2p.",
       "Pipeline: activations forward and their gradients back over P − 1 borders in each of D "
       "replicas, each tensor once and not once for each GPU of a tensor group: 2(P − 1) · D · "
       "2bsh.",
       "Tensor: two all-reduces of the activations forward and two back in every layer, in each "
       "of D replicas: D · 4L · 2(T − 1) · 2bsh."});
  report.page().paragraph(
      "Data and pipeline are the paper's numbers. For tensor parallelism the textbook count gives "
      "38.5 and 69.3 TB where the paper prints 35.8 and 68.8; its ratio of the two models, 1.92, "
      "is not that of their L·h, 1.80, so it counts something more, which we do not know. Nothing "
      "else here depends on it: this traffic never reaches the network.");
  report.add(draw(chart));
  report.add(table, "table");
}

}  // namespace

std::vector<Study> traffic_studies() {
  return {{.name = "traffic",
           .title = "Which parallelism loads the network",
           .question =
               "Bytes that one training iteration sends by tensor, data and pipeline parallelism, "
               "from the shape of the model.",
           .axes = {{"transformer", {"Llama3-70B", "GPT3-175B"}}},
           .seeded = false,
           .metrics = {"tensor_bytes", "data_bytes", "pipeline_bytes"},
           .measure = measure,
           .draw = draw_traffic}};
}

}  // namespace monkeytree
