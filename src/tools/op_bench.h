// Timing the operator, for `dp bench op` and `dp demo`.
#pragma once
#include <cstdint>
#include <string>

#include "tools/machine.h"

namespace dp::cli {

struct OpShape {
  int64_t B, T, H, K, V, n;
  /// The flops of the recurrence itself, whatever an implementation spends.
  double useful_flops() const { return double(B * H * T) * double((4 * n + 2) * K * V); }
};

/// "B,T,H,K,V,n", six numbers of at least 1. Throws InputError.
OpShape parse_shape(const std::string& text);
std::string to_text(const OpShape& shape);

struct OpTiming {
  OpShape shape{};
  double forward_ms = 0;           // without a graph of gradients
  double forward_backward_ms = 0;  // with the gradients of q, k, v and beta
  double sgemm_gflops = 0;         // in the same rounds
  double useful_gflops() const { return shape.useful_flops() / forward_ms * 1e-6; }
  double forward_ratio() const { return useful_gflops() / sgemm_gflops; }
  double step_ratio() const { return forward_backward_ms / forward_ms; }
};

/// Rounds of sgemm, forward, forward + backward in turn, until `seconds` have passed and at least
/// three times; the best of each.
OpTiming time_operator(const OpShape& shape, double seconds);

/// The one-token step on K = V = 128, H = 8, B = 1, n = 2 beside one pass of scaling over the same
/// state.
struct DecodeTiming {
  double step_us = 0, scale_us = 0;
  double ratio() const { return step_us / scale_us; }
};
DecodeTiming time_decoding(double seconds);

/// Throws std::runtime_error unless the timed implementation agrees with the reference in float64.
void require_parity();

}  // namespace dp::cli
