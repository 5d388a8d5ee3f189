// A model opened from its directory, and the threads it computes with.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace deltaproduct {

struct Internals;  // the library's own

/// A handle: copies are cheap and share the model, whose weights stay mapped from their files until the last copy, and the
/// last Session or Batch made from one, is gone. The model does not change once it is open: any number of threads may use it.
class Model {
 public:
  /// A directory with config.json and weights (safetensors or pytorch_model.bin), in float32, bfloat16, float16, int8 or
  /// int4. Throws Error that names the file, and the field or tensor at fault.
  static Model open(const std::filesystem::path& directory);

  int64_t vocabulary_size() const;
  int64_t num_layers() const;
  int64_t hidden_size() const;
  int64_t num_parameters() const;
  /// Bytes that one sequence carries from token to token, however long it is.
  int64_t state_bytes() const;
  /// Bytes of weights that decoding one token reads.
  int64_t bytes_per_token() const;
  const std::string& dtype() const;              // "float32", "bfloat16", "float16", "int8" or "int4"
  const std::vector<int64_t>& end_tokens() const;  // eos_token_id of config.json

 private:
  friend struct Internals;
  struct Data;
  explicit Model(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

/// Threads that sessions and batches compute on; results do not depend on their number. A handle like Model. Sessions that
/// share threads take turns: use them from one thread of control, and give each of several its own Threads.
class Threads {
 public:
  /// 0: as many as there are cores. At most 1024; throws Error.
  explicit Threads(int count = 0);
  int count() const;

 private:
  friend struct Internals;
  struct Data;
  std::shared_ptr<Data> data_;
};

}  // namespace deltaproduct
