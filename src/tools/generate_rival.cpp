// dp generate for models that only the lab runs.
#include "nn/pretrained.h"
#include "nn/session.h"
#include "tools/generate.h"

namespace dp::cli {

int generate_with_rival(const GenerateArguments& arguments) {
  arguments.threads.apply();
  const auto model = std::make_shared<const LanguageModel>(load_model(arguments.model));
  Session session(model);
  return generate_with(session, model->config(), arguments);
}

}  // namespace dp::cli
