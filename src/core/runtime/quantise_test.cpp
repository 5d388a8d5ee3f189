#include "runtime/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/test_folder.h"
#include "base/test_input_error.h"
#include "runtime/convert.h"
#include "runtime/session.h"
#include "runtime/test_models.h"

namespace dp::runtime {
namespace {
namespace fs = std::filesystem;

std::vector<float> normal_weights(size_t count, unsigned seed = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> weights(count);
  for (float& w : weights) w = normal(rng);
  return weights;
}

// Root of the mean squared error over that of the weights.
double relative_error(const std::vector<float>& weights, size_t rows, size_t columns,
                WeightFormat format) {
  SerialExecutor serial;
  const QuantisedMatrix quantised = quantise(weights, rows, columns, format, serial);
  const WeightMatrix matrix = quantised.matrix(format, rows, columns);
  double error = 0, total = 0;
  for (size_t o = 0; o < rows; ++o)
    for (size_t i = 0; i < columns; ++i) {
      const double w = weights[o * columns + i];
      error += std::pow(weight_at(matrix, o, i) - w, 2);
      total += w * w;
    }
  return std::sqrt(error / total);
}

TEST(Quantise, ErrorsAreThoseOfTheFormats) {
  const std::vector<float> weights = normal_weights(200 * 320);
  EXPECT_LT(relative_error(weights, 200, 320, WeightFormat::kInt8), 0.0055);
  EXPECT_LT(relative_error(weights, 200, 320, WeightFormat::kInt4), 0.075);
  for (const size_t columns : {1, 31, 33, 50})  // groups that are not whole
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4})
      EXPECT_LT(relative_error(normal_weights(64 * columns), 64, columns, format), 0.09) << columns;
}

TEST(Quantise, SimpleFractionsAndZerosStayExact) {
  std::vector<float> weights = {0, 1, -1, 0.5f, -0.25f, 0.125f, 0, 0};
  weights.resize(96);  // and a group of zeros
  for (size_t i = 40; i < 50; ++i) weights[i] = static_cast<float>(i) - 45;
  EXPECT_EQ(relative_error(weights, 1, 96, WeightFormat::kInt8), 0);
  SerialExecutor serial;
  const QuantisedMatrix int4 = quantise(weights, 1, 96, WeightFormat::kInt4, serial);
  for (size_t i = 0; i < 96; ++i) {
    const float got = weight_at(int4.matrix(WeightFormat::kInt4, 1, 96), 0, i);
    EXPECT_TRUE(weights[i] != 0 || got == 0) << i;
  }
}

TEST(Quantise, ExtremeWeightsStayFinite) {
  for (const float size : {1e-45f, 1e-38f, 1e-34f, 1e30f, 3e38f})
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
      std::vector<float> weights = normal_weights(64);
      for (float& w : weights) w = w > 0 ? size : -size / 3;
      SerialExecutor serial;
      const QuantisedMatrix q = quantise(weights, 2, 32, format, serial);
      for (size_t i = 0; i < 64; ++i) {
        const float w = weight_at(q.matrix(format, 2, 32), i / 32, i % 32);
        // Scales below 1e-38 have no inverse; what is as small becomes 0.
        EXPECT_LE(std::abs(w - weights[i]), std::max(0.1f * size, 2e-36f)) << weights[i];
      }
    }
}

TEST(Quantise, BitsDoNotDependOnThreads) {
  const std::vector<float> weights = normal_weights(50 * 100);
  SerialExecutor serial;
  ThreadPool pool(3);
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const QuantisedMatrix one = quantise(weights, 50, 100, format, serial);
    const QuantisedMatrix three = quantise(weights, 50, 100, format, pool);
    EXPECT_EQ(one.codes, three.codes);
    EXPECT_EQ(one.scales, three.scales);
  }
}

class QuantisedModels : public testing::Test {
 protected:
  // What the matrices of a directory stand for.
  static Arrays widened(const Arrays& arrays, WeightFormat format) {
    Arrays result = arrays;
    SerialExecutor serial;
    for (auto& [name, array] : result) {
      const auto has = [&, &name = name](const char* part) {
        return name.find(part) != std::string::npos;
      };
      if (array.shape.size() != 2 || has(".a_proj") || has(".b_proj")) continue;
      const WeightFormat used = has("embeddings") || has("lm_head") ? WeightFormat::kInt8 : format;
      const auto rows = static_cast<size_t>(array.shape[0]);
      const auto columns = static_cast<size_t>(array.shape[1]);
      const QuantisedMatrix q = quantise(array.values, rows, columns, used, serial);
      for (size_t i = 0; i < array.values.size(); ++i)
        array.values[i] = weight_at(q.matrix(used, rows, columns), i / columns, i % columns);
    }
    return result;
  }
  std::string error_message(const fs::path& from) {
    return input_error([&] { convert_checkpoint(from, folder_ / "other", {"int8"}, serial_); });
  }
  SerialExecutor serial_;
  TestFolder folder_;
};

TEST_F(QuantisedModels, ComputeWithTheWeightsTheyStandFor) {
  for (const ModelConfig& config : some_configs())
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4})
      for (const bool legacy : {false, true}) {
        SCOPED_TRACE(describe(config));
        const Arrays arrays = random_arrays(config);
        const fs::path from = folder_ / "from", to = folder_ / "to";
        fs::remove_all(from), fs::remove_all(to);
        write_model(from, config, arrays, {DType::kF32, legacy});
        ConvertOptions options{format == WeightFormat::kInt8 ? "int8" : "int4"};
        options.legacy_layout = legacy;
        convert_checkpoint(from, to, options, serial_);
        EXPECT_EQ(Model::open(to)->config().dtype, format == WeightFormat::kInt8 ? "int8" : "int4");
        const std::vector<int64_t> tokens = random_tokens(config, 20);
        const std::vector<double> want = reference_logits(config, widened(arrays, format), tokens);
        const std::vector<double> plain = reference_logits(config, arrays, tokens);
        // What it costs to round activations to 16 bits is little beside what it costs to round the weights.
        double cost = 0;
        const auto vocab = static_cast<size_t>(config.vocab_size);
        for (size_t i = want.size() - vocab; i < want.size(); ++i)
          cost = std::max(cost, std::abs(want[i] - plain[i]));
        Runner runner(Model::open(to), serial_);
        std::vector<float> first;
        for (const size_t block : {1, 6, 20}) {
          Session session(runner);
          for (size_t i = 0; i < tokens.size(); i += block)
            session.feed(std::span(tokens).subspan(i, std::min(block, tokens.size() - i)));
          const std::span<const float> logits = session.logits();
          EXPECT_LT(distance(logits, std::span(want).last(vocab)), 0.05 * cost);
          if (first.empty()) first.assign(logits.begin(), logits.end());
          EXPECT_LT(distance(logits, std::span<const float>(first)), 0.01 * cost);
        }
      }
}

TEST_F(QuantisedModels, RefusesWhatIsQuantisedOrNotFinite) {
  const ModelConfig config = some_configs()[6];
  Arrays arrays = random_arrays(config);
  write_model(folder_ / "from", config, arrays);
  convert_checkpoint(folder_ / "from", folder_ / "to", {"int8"}, serial_);
  EXPECT_NE(error_message(folder_ / "to").find("is quantised already"), std::string::npos);
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  arrays[name].values[5] = INFINITY;
  write_model(folder_ / "from", config, arrays);
  EXPECT_NE(error_message(folder_ / "from").find("'" + name + "' holds a number that is not finite"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(QuantisedModels, MissingOrWrongScalesAreNamed) {
  const ModelConfig config = some_configs()[6];
  write_model(folder_ / "from", config, random_arrays(config));
  convert_checkpoint(folder_ / "from", folder_ / "to", {"int4"}, serial_);
  const std::string name = "model.layers.1.attn.q_proj.weight";
  const auto error_after = [&](const auto& change) -> std::string {
    const SafetensorsFile file(folder_ / "to" / "model.safetensors");
    std::vector<TensorEntry> entries;
    for (TensorEntry entry : file.entries())
      if (change(entry)) entries.push_back(entry);
    fs::create_directories(folder_ / "changed");
    fs::copy_file(folder_ / "to" / "config.json", folder_ / "changed" / "config.json",
                  fs::copy_options::overwrite_existing);
    write_safetensors(folder_ / "changed" / "model.safetensors", entries);
    return input_error([&] { Model::open(folder_ / "changed"); });
  };
  EXPECT_EQ(error_after([](TensorEntry&) { return true; }), "no error");
  EXPECT_NE(error_after([&](TensorEntry& e) {
              return e.name != name + "_scale";
            }).find("has no tensor '" + name + "_scale'"),
            std::string::npos);
  EXPECT_NE(error_after([&](TensorEntry& e) {
              if (e.name == name + "_scale") std::swap(e.shape[0], e.shape[1]);
              return true;
            }).find("'" + name + "_scale' has shape [1, 12], expected [12, 1]"),
            std::string::npos);
  EXPECT_NE(error_after([&](TensorEntry& e) {
              if (e.name == name) e.shape = {e.shape[0] * e.shape[1]};
              return true;
            }).find("'" + name + "' has shape [192], expected [12, 16]"),
            std::string::npos);
}

}  // namespace
}  // namespace dp::runtime
