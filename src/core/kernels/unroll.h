// Loops that must be unrolled: arrays of vectors indexed by a loop variable otherwise live in memory, not in registers.
#pragma once

#define DP_PRAGMA(text) _Pragma(#text)

/// Unrolls the loop that follows up to `times` times.
#define DP_UNROLL(times) DP_PRAGMA(GCC unroll times)

/// A loop over i = 0 .. count-1 with a constant count of at most 32, unrolled completely.
#define DP_FOR(i, count) DP_UNROLL(32) for (size_t i = 0; i < (count); ++i)
