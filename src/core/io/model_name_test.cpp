#include "io/model_name.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace dp {
namespace {

TEST(ModelName, IsThePapers) {
  ModelConfig config;
  config.num_householder = 3;
  EXPECT_EQ(model_name(config), "DeltaProduct_3 [0,1]");
  config.allow_neg_eigval = config.use_forget_gate = true;
  EXPECT_EQ(model_name(config), "Gated DeltaProduct_3 [-1,1]");
  EXPECT_EQ(model_option(config), "deltaproduct");
  config.architecture = Architecture::kMamba;
  EXPECT_EQ(model_name(config), "Mamba [-1,1]");
  EXPECT_EQ(architecture_name(config), "Mamba");
  config.architecture = Architecture::kRwkv7;
  EXPECT_EQ(model_name(config), "RWKV-7_3 [-1,1]");
  config.num_householder = 1;
  EXPECT_EQ(model_name(config), "RWKV-7 [-1,1]");
  config.architecture = Architecture::kSlstm;
  EXPECT_EQ(model_name(config), "sLSTM");
}

TEST(ModelName, EveryArchitectureHasAnOption) {
  for (const Architecture architecture : architectures()) {
    ModelConfig config;
    config.architecture = architecture;
    EXPECT_EQ(parse_model_option(model_option(config)), architecture);
  }
  EXPECT_EQ(model_options().size(), architectures().size());
  EXPECT_THROW(parse_model_option("lstm"), InputError);
}

}  // namespace
}  // namespace dp
