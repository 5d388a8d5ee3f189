#include <deltaproduct/infer/generate.h>
#include <deltaproduct/nn/pretrained.h>

#include <iostream>

int main(int, char** argv) {
  const auto model = std::make_shared<dp::LanguageModel>(dp::load_model(argv[1]));
  dp::Session session(model);
  const std::vector<int64_t> prompt = {1, 5, 7};
  dp::GenerateOptions options;
  options.max_tokens = 10;
  for (const int64_t token : dp::generate(session, prompt, options)) std::cout << token << " ";
  session.save(argv[2]);  // to go on later, at no cost for what has been read
}
