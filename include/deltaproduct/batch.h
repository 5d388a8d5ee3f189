// Decoding many sequences together: the weights are read once for all of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <deltaproduct/session.h>

namespace deltaproduct {

/// Rows join and leave between steps. By one thread at a time. A row's logits are those of a Session to rounding, not to
/// the bit: products with many rows add in another order than those with few.
class Batch {
 public:
  explicit Batch(Model model, Threads threads = Threads());
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;

  size_t size() const;  // rows
  /// A copy of the session's sequence becomes the last row. Throws Error if it is of another model.
  void join(const Session& session);
  /// One token for each row; logits [rows,vocabulary] of the tokens after them, valid until the next call. Throws Error and
  /// changes nothing unless there is a token of the vocabulary for each row.
  std::span<const float> step(std::span<const int64_t> tokens);
  /// Takes a row out; the last row moves to its place. Throws Error if there is no such row.
  void leave(size_t row);

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace deltaproduct
