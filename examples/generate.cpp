// generate DIR TOKEN...: continues tokens with a model, for example  generate model 1 5 7
#include <deltaproduct/error.h>
#include <deltaproduct/sampling.h>
#include <deltaproduct/session.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: generate DIR TOKEN...\n"), 2;
  try {
    const auto model = deltaproduct::Model::open(argv[1]);
    deltaproduct::Session session(model);
    for (int i = 2; i < argc; ++i) session.feed(std::atoll(argv[i]));
    deltaproduct::Sampler sampler({.temperature = 0});
    for (int i = 0; i < 10; ++i) {
      const int64_t token = sampler.sample(session.logits());
      std::printf("%s%ld", i ? " " : "", static_cast<long>(token));
      session.feed(token);
    }
    std::printf("\n");
  } catch (const deltaproduct::Error& error) {
    return std::fprintf(stderr, "generate: %s\n", error.what()), 2;
  }
}
