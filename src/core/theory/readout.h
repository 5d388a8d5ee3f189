// Reading a state through a query and an RMSNorm: one number from which the whole state can be told.
//
// A state h has d entries from a finite set. With q along (b, b^2, .. b^d), h . q is a number whose digits to
// base b are the entries, and different states give different numbers if b is at least the largest difference
// of two values over the least, plus 1. An RMSNorm of that one number, x / sqrt(eps + x^2), is increasing as
// long as eps > 0, so it keeps them apart, though with little room: with a small eps all outputs are near 1 or
// -1, and float32 tells fewer of them apart than there are.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dp::theory {

/// The base that is large enough for entries with these values; 1 if all are the same.
double sufficient_base(std::span<const double> values);
/// (b, b^2, .. b^d) at length 1.
std::vector<double> readout_query(double base, size_t d);
/// x / sqrt(eps + x^2) of x = h . q.
double read_out(std::span<const double> h, std::span<const double> q, double eps);

/// All states with d entries from `values`, read out.
struct ReadoutCheck {
  int64_t states = 0;
  int64_t distinct = 0;           // outputs, in double; closer than 1e-13 of their size is the same
  int64_t distinct_in_float = 0;  // after rounding to float32
  std::optional<std::pair<std::vector<double>, std::vector<double>>> collision;  // the first
};
/// Throws std::invalid_argument if eps is not positive, or the states are more than a million.
ReadoutCheck check_readout(std::span<const double> values, size_t d, double base, double eps);

}  // namespace dp::theory
