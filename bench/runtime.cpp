// How close the runtime is to what the machine can do, as ratios within one run:
//   bench_runtime [THREADS] [kernels|decode|prompt|streams|start ...]
// kernels: products with one row against reading memory, with many against OpenBLAS (if it is installed)
// decode:  one token of the 340M model against reading its weights
// prompt:  2048 tokens of that model against its products alone
// streams: 64 sequences of a model of 21.6M parameters against one
// start:   the first token of the 340M model, from its directory, against reading its file
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "runtime/batch.h"
#include "runtime/quantise.h"
#include "runtime/session.h"
#include "runtime/stored_floats.h"

namespace dp::runtime {
namespace {

// Of one thread, the processor's time, to which other programs on the machine add little; else that of the clock.
bool one_thread = false;

double now() {
  timespec time;
  clock_gettime(one_thread ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The shortest of several runs: others may use the machine.
double best_time(int runs, const std::function<void()>& run) {
  run();
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  }
  return best;
}

/// Small pseudo-random weights, fast.
std::vector<float> random_weights(size_t count, float size, uint32_t seed) {
  std::vector<float> weights(count);
  uint32_t x = seed * 2654435761u + 1;
  for (float& w : weights) {
    x = x * 1664525u + 1013904223u;
    w = size * (static_cast<float>(x >> 8) * 0x1p-23f - 1);
  }
  return weights;
}

volatile float sink;

// Bytes per second of reading `bytes` of memory with all threads, the better of one and of four streams per thread.
double read_bandwidth(size_t bytes, Executor& executor) {
  const std::vector<uint64_t> memory(bytes / 8, 1);
  constexpr size_t kPiece = 1 << 15, kLine = 8;
  double best = 1e9;
  for (const size_t streams : {1, 4}) {
    const size_t length = kPiece / streams;
    best = std::min(best, best_time(7, [&] {
                      executor.run(memory.size() / kPiece, [&](size_t i) {
                        uint64_t sums[kLine] = {};
                        const uint64_t* p = memory.data() + i * kPiece;
                        for (size_t j = 0; j < length; j += kLine)
                          for (size_t s = 0; s < streams; ++s) {
                            __builtin_prefetch(p + s * length + j + 128);
                            for (size_t k = 0; k < kLine; ++k) sums[k] += p[s * length + j + k];
                          }
                        for (const uint64_t sum : sums)
                          if (sum == 1) sink = 1;
                      });
                    }));
  }
  return static_cast<double>(bytes) / best;
}

/// A matrix in some format that owns its memory. Moving keeps it where it is.
struct Weights {
  Weights(WeightFormat format, size_t rows, size_t columns, uint32_t seed, Executor& executor) {
    const std::vector<float> values = random_weights(rows * columns, 0.05f, seed);
    if (format == WeightFormat::kFloat32) {
      floats = values;
      matrix = {format, rows, columns, floats.data(), nullptr};
    } else if (format == WeightFormat::kBFloat16) {
      for (const float x : values) halves.push_back(to_bfloat16(x));
      matrix = {format, rows, columns, halves.data(), nullptr};
    } else {
      quantised = quantise(values, rows, columns, format, executor);
      matrix = quantised.matrix(format, rows, columns);
    }
  }
  Weights(Weights&&) = default;
  WeightMatrix matrix;
  std::vector<float> floats;
  std::vector<uint16_t> halves;
  QuantisedMatrix quantised;
};

constexpr WeightFormat kFormats[] = {WeightFormat::kFloat32, WeightFormat::kBFloat16,
                                     WeightFormat::kInt8, WeightFormat::kInt4};
const char* name_of(WeightFormat format) {
  constexpr const char* kNames[] = {"float32", "bfloat16", "int8", "int4"};
  return kNames[static_cast<size_t>(format)];
}

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

// cblas_sgemm of OpenBLAS on so many threads, or null.
Sgemm find_sgemm(int threads) {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (library == nullptr) return nullptr;
  if (const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")))
    set(threads);
  return reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

void bench_kernels(Executor& executor) {
  constexpr size_t I = 1024, O = 4096, kCopies = 24;  // more than fits into caches
  const double bandwidth = read_bandwidth(size_t{400} << 20, executor);
  std::printf("reading memory: %.1f GB/s\n\none row, share of that\n", bandwidth / 1e9);
  LinearScratch scratch;
  std::vector<float> x = random_weights(512 * I, 1, 9), y(512 * O);
  for (const WeightFormat format : kFormats) {
    // Smaller formats need more copies to come from memory; they may be the same.
    std::vector<std::vector<uint8_t>> data;
    const Weights one(format, O, I, 1, executor);
    const size_t bytes = one.matrix.bytes(), copies = kCopies * (O * I * 4) / bytes;
    std::vector<WeightMatrix> matrices;
    for (size_t i = 0; i < copies; ++i) {
      const auto* p = static_cast<const uint8_t*>(one.matrix.data);
      data.emplace_back(p, p + O * one.matrix.row_bytes());
      matrices.push_back(one.matrix);
      matrices.back().data = data.back().data();
    }
    const size_t read = copies * O * one.matrix.row_bytes();  // the scales of all are the same
    const double seconds = best_time(5, [&] {
      for (const WeightMatrix& m : matrices) {
        const LinearOutput output{m, y.data(), O, false};
        linear(x.data(), 1, I, {&output, 1}, scratch, executor);
      }
    });
    const double rate = static_cast<double>(read) / seconds;
    std::printf("  %-9s %6.2f GB/s  %.2f\n", name_of(format), rate / 1e9, rate / bandwidth);
  }

  const Sgemm sgemm = find_sgemm(executor.num_threads());
  std::printf("\n%zu inputs, %zu outputs, GFLOP/s\n rows  sgemm", I, O);
  for (const WeightFormat format : kFormats) std::printf("  %8s share", name_of(format));
  std::printf("\n");
  std::vector<Weights> weights;
  for (const WeightFormat format : kFormats) weights.emplace_back(format, O, I, 1, executor);
  for (const size_t M : {1, 2, 4, 8, 9, 16, 32, 48, 64, 128, 256, 512}) {
    const double work = 2e-9 * static_cast<double>(M * I * O);
    double peak = 0;
    if (sgemm != nullptr) {
      const int m = static_cast<int>(M), o = O, k = I;
      peak = work / best_time(7, [&] {
               sgemm(101, 111, 112, m, o, k, 1, x.data(), k, weights[0].floats.data(), k, 0,
                     y.data(), o);
             });
    }
    std::printf("%5zu %6.1f", M, peak);
    for (const Weights& w : weights) {
      const LinearOutput output{w.matrix, y.data(), O, false};
      const double rate = work / best_time(7, [&] {
                            linear(x.data(), M, I, {&output, 1}, scratch, executor);
                          });
      std::printf("  %8.1f %5.2f", rate, peak > 0 ? rate / peak : 0);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

/// Random weights in a format.
NamedTensors make_tensors(const ModelConfig& c, WeightFormat format, Executor& executor) {
  NamedTensors tensors{"model", {}};
  uint32_t seed = 1;
  const auto put = [&](const std::string& name, DType dtype, std::vector<int64_t> shape,
                       auto values) {
    auto kept = std::make_shared<const decltype(values)>(std::move(values));
    tensors.tensors[name] = {
        name, "model", dtype, std::move(shape), {}, std::as_bytes(std::span(*kept)), kept};
  };
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    size_t size = 1;
    for (const int64_t extent : shape) size *= static_cast<size_t>(extent);
    std::vector<float> values = random_weights(size, 0.05f, ++seed);
    if (shape.size() != 2 || format == WeightFormat::kFloat32)
      return put(name, DType::kF32, shape, std::move(values));
    if (format == WeightFormat::kBFloat16) {
      std::vector<uint16_t> halves(size);
      std::ranges::transform(values, halves.begin(), to_bfloat16);
      return put(name, DType::kBF16, shape, std::move(halves));
    }
    const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
    QuantisedMatrix q = quantise(values, rows, columns, format, executor);
    const WeightMatrix m = q.matrix(format, rows, columns);
    put(scale_name(name), DType::kBF16, {shape[0], static_cast<int64_t>(m.groups())},
        std::move(q.scales));
    put(name, format == WeightFormat::kInt8 ? DType::kI8 : DType::kU8,
        {shape[0], static_cast<int64_t>(m.row_bytes())}, std::move(q.codes));
  };
  const int64_t D = c.hidden_size;
  add("model.embeddings.weight", {c.vocab_size, D});
  add("model.norm.weight", {D});
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".", a = p + "attn.";
    add(p + "attn_norm.weight", {D});
    add(p + "mlp_norm.weight", {D});
    add(a + "q_proj.weight", {c.query_width(), D});
    add(a + "k_proj.weight", {c.key_width(), D});
    add(a + "v_proj.weight", {c.value_width(), D});
    add(a + "b_proj.weight", {c.num_householder * c.value_heads(), D});
    if (c.use_forget_gate) {
      add(a + "a_proj.weight", {c.value_heads(), D});
      add(a + "A_log", {c.value_heads()});
      add(a + "dt_bias", {c.value_heads()});
    }
    add(a + "q_conv1d.weight", {c.query_width(), 1, c.conv_size});
    add(a + "k_conv1d.weight", {c.key_width(), 1, c.conv_size});
    add(a + "v_conv1d.weight", {c.value_width(), 1, c.conv_size});
    if (c.use_output_gate) add(a + "g_proj.weight", {c.output_width(), D});
    add(a + "o_norm.weight", {c.value_head_dim()});
    add(a + "o_proj.weight", {D, c.output_width()});
    add(p + "mlp.gate_proj.weight", {c.mlp_width(), D});
    add(p + "mlp.up_proj.weight", {c.mlp_width(), D});
    add(p + "mlp.down_proj.weight", {D, c.mlp_width()});
  }
  return tensors;
}

std::shared_ptr<const Model> make_model(const ModelConfig& c, WeightFormat format,
                                        Executor& executor) {
  return std::make_shared<const Model>(c, make_tensors(c, format, executor));
}

ModelConfig config_340m() {  // configs/340m_n1.json
  ModelConfig c;
  c.vocab_size = 32000;
  c.hidden_size = 1024;
  c.num_hidden_layers = 24;
  c.num_heads = 8;
  c.head_dim = 128;
  c.expand_v = 1;
  c.allow_neg_eigval = c.tie_word_embeddings = true;
  c.use_output_gate = false;
  return c;
}

ModelConfig config_21m() {
  ModelConfig c;
  c.vocab_size = 8192;
  c.hidden_size = 512;
  c.num_hidden_layers = 6;
  c.num_heads = 8;
  c.head_dim = 64;
  c.expand_v = 1;
  c.use_forget_gate = c.allow_neg_eigval = c.tie_word_embeddings = true;
  c.intermediate_size = 1024;
  return c;
}

void bench_decode(Executor& executor) {
  const double bandwidth = read_bandwidth(size_t{400} << 20, executor);
  std::printf("340M, one token; reading memory: %.1f GB/s\n", bandwidth / 1e9);
  for (const WeightFormat format : kFormats) {
    Runner runner(make_model(config_340m(), format, executor), executor);
    Session session(runner);
    const double seconds = best_time(5, [&] { session.feed(1); });
    const auto bytes = static_cast<double>(runner.model().bytes_per_token());
    std::printf("  %-9s %6.1f ms  %6.1f tokens/s  %6.1f MB  share %.2f\n", name_of(format),
                1e3 * seconds, 1 / seconds, bytes / 1e6, bytes / seconds / bandwidth);
    std::fflush(stdout);
  }
}

// All products of a forward pass of float32 layers with M rows, without anything between them.
double time_of_products(const ModelConfig& c, size_t M, Executor& executor) {
  const auto D = static_cast<size_t>(c.hidden_size), width = static_cast<size_t>(c.mlp_width());
  const auto qkv = static_cast<size_t>(
      c.query_width() + c.key_width() + c.value_width() + c.num_householder * c.value_heads() +
      (c.use_forget_gate ? c.value_heads() : 0) + (c.use_output_gate ? c.output_width() : 0));
  const auto heads = static_cast<size_t>(c.output_width());
  LinearScratch scratch;
  std::vector<std::pair<Weights, std::vector<float>>> products;
  for (const auto& [rows, columns] : {std::pair(qkv, D), {D, heads}, {2 * width, D}, {D, width}})
    products.emplace_back(Weights(WeightFormat::kFloat32, rows, columns, 1, executor),
                          std::vector<float>(M * rows));
  const std::vector<float> x = random_weights(M * std::max({D, heads, width}), 1, 3);
  return best_time(3, [&] {
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
      for (auto& [weights, y] : products) {
        const WeightMatrix& w = weights.matrix;
        const LinearOutput output{w, y.data(), w.rows, false};
        linear(x.data(), M, w.columns, {&output, 1}, scratch, executor);
      }
  });
}

void bench_prompt(Executor& executor) {
  const ModelConfig config = config_340m();
  Runner runner(make_model(config, WeightFormat::kFloat32, executor), executor);
  const std::vector<int64_t> tokens(2048, 7);
  const double seconds = best_time(2, [&] { Session(runner).feed(tokens); });
  const double products = 4 * time_of_products(config, Runner::kBlock, executor);
  std::printf("340M, prompt of 2048 tokens: %.2f s; its products alone %.2f s, ratio %.2f\n",
              seconds, products, seconds / products);
}

// From a directory, whose files are in the page cache, to the logits after one token.
void bench_start(Executor& executor) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "bench_runtime_model";
  {
    const NamedTensors tensors = make_tensors(config_340m(), WeightFormat::kFloat32, executor);
    std::vector<TensorEntry> entries;
    for (const auto& [name, t] : tensors.tensors)
      entries.push_back({name, t.dtype, t.shape, t.data});
    write_checkpoint(folder, entries);
    std::ofstream(folder / "config.json") << to_json(config_340m());
  }
  std::vector<char> buffer(1 << 20);
  const double reading = best_time(3, [&] {
    std::ifstream file(folder / "model.safetensors", std::ios::binary);
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) sink = buffer[0];
  });
  const double first = best_time(3, [&] {
    Runner runner(Model::open(folder), executor);
    Session(runner).feed(1);
  });
  std::printf("340M in float32: reading the file %.3f s, first token %.3f s, ratio %.2f\n", reading,
              first, first / reading);
  fs::remove_all(folder);
}

void bench_streams(Executor& executor) {
  for (const WeightFormat format : {WeightFormat::kFloat32, WeightFormat::kBFloat16}) {
    Runner runner(make_model(config_21m(), format, executor), executor);
    Session one(runner);
    const double alone = best_time(40, [&] { one.feed(1); });
    for (const size_t streams : {8, 64}) {
      Batch batch(runner);
      for (size_t i = 0; i < streams; ++i) batch.join(runner.model().new_state());
      const std::vector<int64_t> tokens(streams, 1);
      const double together = best_time(40, [&] { batch.step(tokens); });
      std::printf("21.6M %s: one stream %.0f tokens/s, %zu streams %.0f tokens/s, %.1f times\n",
                  name_of(format), 1 / alone, streams, static_cast<double>(streams) / together,
                  static_cast<double>(streams) * alone / together);
    }
  }
}

}  // namespace
}  // namespace dp::runtime

int main(int argc, char** argv) {
  using namespace dp::runtime;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  dp::ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : cores);
  one_thread = pool.num_threads() == 1;
  const std::set<std::string> wanted(argv + std::min(argc, 2), argv + argc);
  const auto wants = [&](const char* name) { return wanted.empty() || wanted.contains(name); };
  if (wants("kernels")) bench_kernels(pool);
  if (wants("decode")) bench_decode(pool);
  if (wants("prompt")) bench_prompt(pool);
  if (wants("streams")) bench_streams(pool);
  if (wants("start")) bench_start(pool);
}
