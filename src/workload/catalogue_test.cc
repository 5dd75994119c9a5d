#include "workload/catalogue.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "workload/idle.h"
#include "workload/number.h"

namespace monkeytree {
namespace {

/// The findings about a catalogue; "" where it is good.
std::string faults(std::string_view text) {
  Diagnostics diagnostics;
  const auto catalogue = Catalogue::parse(text, "my.yaml", diagnostics);
  EXPECT_EQ(catalogue.has_value(), !diagnostics.has_errors());
  return diagnostics.text();
}

/// The findings about a model whose phases are these.
std::string phase_faults(const std::string& phases) {
  return faults("models:\n  - name: m\n    gpus: [16]\n    phases:\n" + phases);
}

int64_t iteration_us(std::string_view name, int gpus) {
  const Model* model = Catalogue::standard().find(name);
  EXPECT_NE(model, nullptr) << name;
  return idle_iteration_us(rank_steps(*model, gpus, PipelineSchedule::kGpipe), 50'000, 8, false);
}

TEST(StandardCatalogue, HasTheModelsAndTheirWeights) {
  int weight = 0;
  for (const Model& model : Catalogue::standard().models()) weight += model.weight;
  EXPECT_EQ(Catalogue::standard().models().size(), 12u);
  EXPECT_EQ(weight, 352);
  EXPECT_TRUE(Catalogue::standard().find("llama2_70b_fsdp")->sharded);
  EXPECT_FALSE(Catalogue::standard().find("gpt_7b_dp")->sharded);
  EXPECT_EQ(Catalogue::standard().find("gpt_oss_20b_dp_moe")->phases.size(), 49u);
  EXPECT_EQ(Catalogue::standard().find("ep_gpt_120b_32")->weight, 0);
  EXPECT_EQ(Catalogue::standard().find("none"), nullptr);
}

// Times that an independent simulator, which rounds transfers down, found on an idle network.
TEST(StandardCatalogue, IterationsTakeAsLongAsElsewhere) {
  const struct {
    const char* model;
    int gpus;
    double us;
  } known[] = {
      {"llama2_70b_fsdp", 16, 7'531'625},
      {"llama2_70b_fsdp", 24, 7'646'150},
      {"llama2_70b_fsdp", 32, 7'703'412},
      {"llama3_70b_fsdp", 16, 10'411'625},
      {"llama3_70b_fsdp", 24, 10'526'150},
      {"llama3_70b_fsdp", 32, 10'583'412},
      {"llama2_70b_tp_dp", 16, 684'600},
      {"llama2_70b_tp_dp", 32, 856'400},
      {"llama3_70b_tp_dp", 16, 1'086'600},
      {"llama3_70b_tp_dp", 32, 1'258'400},
      {"llama2_70b_tp_dp_pp_2", 32, 1'713'472},
      {"llama2_70b_tp_dp_pp_2", 48, 1'770'738},
      {"llama2_70b_tp_dp_pp_2", 64, 1'799'372},
      {"llama2_70b_tp_dp_pp_4", 64, 1'035'240},
      {"gpt_7b_dp", 16, 600'500},
      {"gpt_7b_dp", 24, 611'333},
      {"gpt_7b_dp", 32, 616'750},
      {"gpt_13b_dp", 16, 1'190'000},
      {"gpt_13b_dp", 24, 1'211'666},
      {"gpt_13b_dp", 32, 1'222'500},
      {"gpt_oss_20b_dp_moe", 16, 3'532'920},
      {"gpt_oss_120b_dp_moe", 16, 2'983'170},
  };
  for (const auto& [model, gpus, us] : known) {
    const double ours = static_cast<double>(iteration_us(model, gpus));
    EXPECT_GE(ours, us) << model << " on " << gpus;
    EXPECT_LE(ours, us * 1.00015) << model << " on " << gpus;
  }
}

TEST(StandardCatalogue, OnlyPipelinesHaveABubble) {
  for (const Model& model : Catalogue::standard().models()) {
    const bool pipeline = model.name.find("_pp_") != std::string::npos;
    for (int gpus : model.gpus) {
      const int64_t without = no_bubble_iteration_us(model, gpus, 50'000);
      const int64_t ideal = iteration_us(model.name, gpus);
      if (pipeline) {
        EXPECT_LT(without, ideal) << model.name;
      } else {
        EXPECT_EQ(without, ideal) << model.name;
      }
    }
  }
  // 8 · 171 ms and a ring of 171.8 ms.
  const Model& two_stages = *Catalogue::standard().find("llama2_70b_tp_dp_pp_2");
  EXPECT_EQ(no_bubble_iteration_us(two_stages, 32, 50'000), 1'539'800);
}

TEST(Catalogue, ReadsEveryKindOfPhase) {
  Diagnostics diagnostics;
  const auto catalogue = Catalogue::parse(R"(
models:
  - name: all.of-it_1
    gpus: [16, 32]
    weight: 3
    sharded: true
    phases:
      - compute: {us: 5}
      - all_reduce: {bytes: 1.5e3}
      - repeat: 2
        phases:
          - strided_ring: {bytes: 10, stride: 8}
          - repeat: 3
            phases: [{all_to_all_ring: {bytes: 7}}]
      - pipeline: {stages: 2, tensor: 4, microbatches: 3, forward_us: 1, backward_us: 2,
                   activation_bytes: 4, shard_bytes: 6}
)",
                                          "f", diagnostics);
  ASSERT_TRUE(catalogue) << diagnostics.text();
  const Model& model = *catalogue->find("all.of-it_1");
  EXPECT_EQ(model.gpus, (std::vector<int>{16, 32}));
  EXPECT_EQ(model.weight, 3);
  EXPECT_TRUE(model.sharded);
  ASSERT_EQ(model.phases.size(), 2 + 2 * 4 + 1u);
  EXPECT_EQ(std::get<AllReduce>(model.phases[1]).bytes, 1500);
  EXPECT_EQ(std::get<StridedRing>(model.phases[6]).stride, 8);
  EXPECT_EQ(std::get<AllToAllRing>(model.phases[9]).bytes, 7);
  EXPECT_EQ(std::get<Pipeline>(model.phases[10]).shard_bytes, 6);
}

TEST(Catalogue, AUsersModelReplacesOneOfTheSameName) {
  Diagnostics diagnostics;
  const auto mine = Catalogue::parse(
      "models:\n- {name: gpt_7b_dp, gpus: [8], phases: [{compute: {us: 1}}]}\n"
      "- {name: mine, gpus: [8], phases: [{compute: {us: 2}}]}\n",
      "f", diagnostics);
  ASSERT_TRUE(mine) << diagnostics.text();
  Catalogue catalogue = Catalogue::standard();
  catalogue.add(*mine);
  EXPECT_EQ(catalogue.models().size(), 13u);
  EXPECT_EQ(catalogue.find("gpt_7b_dp")->gpus, std::vector<int>{8});
  EXPECT_EQ(catalogue.models().back().name, "mine");
}

TEST(Catalogue, FaultsNameTheLineAndWhatWasExpected) {
  EXPECT_EQ(faults("models:\n  - nam: x\n    phases: [{compute: {us: 1}}]\n"),
            "my.yaml:2: model: unknown key \"nam\", expected one of name, gpus, weight, sharded, "
            "phases\nmy.yaml:2: model: `name` is missing\nmy.yaml:2: model: `gpus` is missing\n");
  EXPECT_EQ(phase_faults("      - compute: {uss: 1}\n"),
            "my.yaml:5: compute: unknown key \"uss\", expected us\n"
            "my.yaml:5: compute: `us` is missing\n");
  EXPECT_EQ(phase_faults("      - all_reduce: {bytes: -5}\n"),
            "my.yaml:5: all_reduce: bytes: expected a whole number from 0 to 1000000000000000, "
            "found \"-5\"\n");
  EXPECT_EQ(phase_faults("      - all_reduce: {bytes: 1e16}\n"),
            "my.yaml:5: all_reduce: bytes: expected a whole number from 0 to 1000000000000000, "
            "found \"1e16\"\n");
  EXPECT_EQ(phase_faults("      - compute: {us: 1}\n      - broadcast: {bytes: 1}\n"),
            "my.yaml:6: m: unknown phase \"broadcast\", expected compute, all_reduce, "
            "strided_ring, all_to_all_ring, pipeline or repeat\n");
  EXPECT_EQ(phase_faults("      - strided_ring: {bytes: 1, stride: 32}\n"),
            "my.yaml:3: m: cannot run on 16 GPUs: needs a multiple of 32 GPUs\n");
  EXPECT_EQ(faults("models:\n- &a {name: m, gpus: [8], phases: [{compute: {us: 1}}]}\n- *a\n"),
            "my.yaml:2: the model \"m\" stands there twice\n");
  EXPECT_EQ(faults("models:\n- {name: m, gpus: [8, 8], weight: 1, weight: 2,\n"
                   "   phases: [{compute: {us: 1}}]}\n"),
            "my.yaml:2: m: the key \"weight\" stands there twice\n"
            "my.yaml:2: m: gpus: 8 stands there twice\n");
  EXPECT_EQ(faults("models:\n- {name: \"a,b\", gpus: [8], phases: [{compute: {us: 1}}]}\n"),
            "my.yaml:2: name \"a,b\", expected up to 100 letters, digits, '_', '-' and '.'\n");
  EXPECT_EQ(faults("models: []\nmodel: 3\n"),
            "my.yaml:2: unknown key \"model\", expected models\n");
}

TEST(Catalogue, RefusesWhatIsNoCatalogue) {
  for (const char* text :
       {"", "3", "[]", "models", "models:", "models: 3", "models: [3]", "models: [[]]",
        "models: {a: b}", "a: [", "models: [{name: m, gpus: 8, phases: [{compute: {us: 1}}]}]",
        "models: [{name: m, gpus: [], phases: [{compute: {us: 1}}]}]",
        "models: [{name: m, gpus: [8], phases: []}]",
        "models: [{name: m, gpus: [8], phases: [{compute: 3}]}]",
        "models: [{name: m, gpus: [8], phases: [compute]}]",
        "models: [{name: m, gpus: [8], phases: [{compute: {us: 1}, all_reduce: {bytes: 1}}]}]",
        "models: [{name: m, gpus: [8], sharded: maybe, phases: [{compute: {us: 1}}]}]",
        "models: [{name: m, gpus: [0], phases: [{compute: {us: 1}}]}]",
        "models: [{name: m, gpus: [8], weight: -1, phases: [{compute: {us: 1}}]}]"}) {
    EXPECT_NE(faults(text), "") << text;
  }
}

// 20 aliases in each of 7 levels: 20^7 times one fault.
TEST(Catalogue, GivesUpOnFaultsThatAliasesRepeat) {
  std::string text = "models:\n- name: m\n  gpus: [8]\n  phases:\n";
  for (int level = 0; level < 7; ++level) {
    text += "  - repeat: 1\n    phases: &l" + std::to_string(level) + "\n";
    for (int i = 0; i < 20; ++i) {
      text += level == 0 ? "    - {bad: 1}\n"
                         : "    - {repeat: 1, phases: *l" + std::to_string(level - 1) + "}\n";
    }
  }
  EXPECT_NE(faults(text).find("unknown phase \"bad\""), std::string::npos);
}

// Repeats, and anchors that stand for repeats, cannot be used to fill memory.
TEST(Catalogue, BoundsWhatItWritesOut) {
  EXPECT_EQ(phase_faults("      - repeat: 20000\n        phases:\n          - repeat: 20000\n"
                         "            phases: [{compute: {us: 1}}, {compute: {us: 1}}]\n"),
            "my.yaml:7: m: more than 20000 phases\nmy.yaml:5: m: more than 20000 phases\n");
  EXPECT_EQ(phase_faults("      - repeat: 2\n        phases: [{compute: {us: 0.9e12}}]\n"),
            "my.yaml:2: m: computes for more than 1000000000000 µs in an iteration\n");
  EXPECT_EQ(phase_faults("      - repeat: 2\n        phases: [{all_reduce: {bytes: 9e14}}]\n"),
            "my.yaml:2: m: sends more than 1000000000000000 bytes in an iteration\n");
  std::string deep;
  for (int i = 0; i < 12; ++i) deep += "{repeat: 1, phases: [";
  deep += "{compute: {us: 1}}";
  for (int i = 0; i < 12; ++i) deep += "]}";
  EXPECT_NE(phase_faults("      - " + deep + "\n").find("repeats more than 8 deep"),
            std::string::npos);
}

TEST(WholeNumber, IsExact) {
  EXPECT_EQ(whole_number("0"), 0);
  EXPECT_EQ(whole_number("-12"), -12);
  EXPECT_EQ(whole_number("137.43e9"), 137'430'000'000);
  EXPECT_EQ(whole_number("1685.1E+9"), 1'685'100'000'000);
  EXPECT_EQ(whole_number("3.0"), 3);
  EXPECT_EQ(whole_number("1200e-2"), 12);
  EXPECT_EQ(whole_number("0.0"), 0);
  EXPECT_EQ(whole_number("000000000000000000000007"), 7);
  EXPECT_EQ(whole_number("123456789012345678"), 123'456'789'012'345'678);
  for (const char* text : {"", "-", ".", "e5", "1.5", "1e", "1e1000", "1e18", "1e-1", "0x10", "1 ",
                           "1,000", "nan", "inf", "1.2.3", "1234567890123456789"}) {
    EXPECT_EQ(whole_number(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace monkeytree
