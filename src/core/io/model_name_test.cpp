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
  config.model_type = "gated_delta_product";  // an older name
  EXPECT_EQ(model_option(config), "deltaproduct");
  config.model_type = "mamba";
  EXPECT_EQ(model_name(config), "Mamba [-1,1]");
  EXPECT_EQ(architecture_name(config), "Mamba");
  config.model_type = "rwkv7_product";
  EXPECT_EQ(model_name(config), "RWKV-7_3 [-1,1]");
  config.num_householder = 1;
  EXPECT_EQ(model_name(config), "RWKV-7 [-1,1]");
  config.model_type = "slstm";
  EXPECT_EQ(model_name(config), "sLSTM");
}

TEST(ModelName, EveryTypeHasAnOption) {
  for (const char* type : model_types()) {
    ModelConfig config;
    config.model_type = type;
    if (config.model_type != "gated_delta_product") {
      EXPECT_EQ(model_type_of(model_option(config)), type);
    }
  }
  EXPECT_EQ(model_options().size() + 1, model_types().size());
  EXPECT_THROW(model_type_of("lstm"), InputError);
}

}  // namespace
}  // namespace dp
