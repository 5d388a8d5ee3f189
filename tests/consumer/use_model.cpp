#include <deltaproduct/runtime/generate.h>

#include <iostream>

int main(int, char** argv) {
  dp::ThreadPool threads(2);
  dp::runtime::Runner runner(dp::runtime::Model::open(argv[1]), threads);
  dp::runtime::Session session(runner);
  const std::vector<int64_t> prompt = {1, 5, 7};
  dp::runtime::GenerateOptions options;
  options.max_tokens = 10;
  for (const int64_t token : dp::runtime::generate(session, prompt, options)) std::cout << token << " ";
  session.save(argv[2]);  // to go on later, at no cost for what has been read
}
