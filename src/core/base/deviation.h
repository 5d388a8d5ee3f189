// How far results are from those of golden files, and how far they may be. tests/data/golden/README.md describes the files.
#pragma once
#include <string>
#include <utility>

namespace dp::golden {

// Absolute tolerances of models.
inline constexpr double kLogitTolerance = 1e-4, kStateTolerance = 2e-5;
/// Largest error of the operator relative to the largest expected element. A running sum of gates of -30 costs the
/// chunked forms about 1e-5 by itself.
inline double operator_tolerance(bool gated, bool chunked) { return gated && chunked ? 1e-4 : 1e-5; }

/// One comparison. The greatest of several is the one closest to, or furthest beyond, its tolerance.
struct Deviation {
  double error = -1, tolerance = 1;
  std::string method, tensor;  // "logits" of "whole sequences"
  bool relative = true;        // to the largest expected element
  bool failed() const { return !(error <= tolerance); }
  bool operator<(const Deviation& other) const {
    return std::pair(failed(), error / tolerance) <
           std::pair(other.failed(), other.error / other.tolerance);
  }
};

}  // namespace dp::golden
