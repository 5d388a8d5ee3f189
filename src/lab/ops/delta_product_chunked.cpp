// The recurrence in chunks of C tokens, as batched matrix products (the WY / UT form; docs/math/).
//
// Row r of a chunk is factor r % N of token r / N; R = C N rows. With S the state before the chunk,
// d(i,j) the decay from token j to token i and d(i) the decay from the chunk's start up to and
// including token i, the updates u_r of the recurrence S <- S + k_r u_r^T solve the unit
// lower-triangular system
//   u_r + beta_r sum_{s < r} d(r,s) (k_r . k_s) u_s = beta_r (v_r - d(r) S^T k_r),
// whose right-hand side is linear in S. So U and W are solved for all chunks at once, u = U - W S,
// and only the state goes from chunk to chunk.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "ops/delta_product_arguments.h"

namespace dp {
namespace {

// Rows aimed at per chunk. Of 16, 32, 64 and 128 (torch 1.13, one AVX2 core), 64 took least time at
// K = 128 and N = 2, forward and backward, and was within a third of the best at K = 32 and 64.
constexpr int64_t kRows = 64;

// Decays of every chunk, each exp of a sum of log gates that lies between its ends, never of a
// difference of two running sums: no cancellation, and -inf is as good a gate as any.
struct Decays {
  at::Tensor between;     // [B,H,chunks,C,C], d(i,j) for i >= j, else 0
  at::Tensor from_start;  // [B,H,chunks,C], d(i)
  at::Tensor to_end;      // [B,H,chunks,C], d(C-1,j)
};

// log_gate [B,H,chunks,C]
Decays decays(const at::Tensor& log_gate) {
  const int64_t C = log_gate.size(-1);
  std::vector<int64_t> square = log_gate.sizes().vec();
  square.push_back(C);
  // Entry (i,j) before the running sum over i: log_gate_i when i > j.
  const at::Tensor sums = log_gate.unsqueeze(-1).expand(square).tril(-1).cumsum(-2);
  const at::Tensor future = at::ones({C, C}, log_gate.options().dtype(at::kBool)).triu(1);
  // Masked before exp: a mask after it would leave inf * 0 in the backward pass.
  const at::Tensor between =
      sums.masked_fill(future, -std::numeric_limits<double>::infinity()).exp();
  return {between, log_gate.cumsum(-1).exp(), between.select(-2, C - 1)};
}

// x [B,tokens,...,H,D] -> [B,H,chunks,rows,D], where a chunk's rows are its C tokens times what
// `...` holds.
at::Tensor to_chunks(const at::Tensor& x, int64_t chunks) {
  const int64_t B = x.size(0), H = x.size(-2), D = x.size(-1);
  int64_t rows = x.size(1) / chunks;
  if (x.dim() == 5) rows *= x.size(2);
  return x.reshape({B, chunks, rows, H, D}).permute({0, 3, 1, 2, 4}).contiguous();
}

// x [...,C] -> [...,C*N,1]: the value of a token for each of its rows.
at::Tensor per_row(const at::Tensor& x, int64_t N) {
  return x.unsqueeze(-1).expand({-1, -1, -1, -1, N}).flatten(-2).unsqueeze(-1);
}

// What of a chunk does not depend on the state before it. C tokens and R = C N rows per chunk.
struct Chunks {
  at::Tensor U;        // [B,H,chunks,R,V]
  at::Tensor W;        // [B,H,chunks,R,K]
  at::Tensor q_start;  // [B,H,chunks,C,K], q decayed from the chunk's start
  at::Tensor k_end_t;  // [B,H,chunks,K,R], k decayed to the chunk's end
  at::Tensor scores;   // [B,H,chunks,C,R], decayed q . k where the row is of no later token
  at::Tensor total;    // [B,H,chunks,1,1], decay over the chunk; undefined without gates
};

Chunks make_chunks(const DeltaProductArguments& a, int64_t chunks, int64_t C) {
  const auto prepare = [&](const at::Tensor& x) {
    return to_chunks(pad_tokens(x.to(a.compute_type()), chunks * C - a.T), chunks);
  };
  const at::Tensor q = prepare(a.q) * a.scale, k = prepare(a.k), v = prepare(a.v);
  const at::Tensor beta = prepare(a.beta.unsqueeze(-1));  // [B,H,chunks,R,1]
  const at::Tensor beta_k = beta * k, k_t = k.transpose(-1, -2);
  at::Tensor system = beta_k.matmul(k_t);  // [B,H,chunks,R,R]
  at::Tensor k_start = beta_k;             // [B,H,chunks,R,K]
  Chunks result;
  result.q_start = q;
  result.k_end_t = k_t;
  result.scores = q.matmul(k_t);
  if (a.log_gate.defined()) {
    const Decays d = decays(prepare(a.log_gate.unsqueeze(-1)).squeeze(-1));
    // The decay of a pair of tokens goes to every pair of their rows.
    const at::Tensor pairs = d.between.unsqueeze(-1);  // [B,H,chunks,C,C,1]
    result.scores = (result.scores.unflatten(-1, {C, a.N}) * pairs).flatten(-2);
    system = (system.unflatten(-1, {C, a.N}).unflatten(-3, {C, a.N}) * pairs.unsqueeze(-3))
                 .flatten(-2)
                 .flatten(-3, -2);
    k_start = beta_k * per_row(d.from_start, a.N);
    result.q_start = q * d.from_start.unsqueeze(-1);
    result.k_end_t = (k * per_row(d.to_end, a.N)).transpose(-1, -2);
    result.total = d.from_start.select(-1, C - 1).unsqueeze(-1).unsqueeze(-1);
  }
  const at::Tensor token = at::arange(C, q.options().dtype(at::kLong));
  result.scores = result.scores.masked_fill(token.repeat_interleave(a.N) > token.unsqueeze(-1), 0);
  const at::Tensor solved = at::linalg_solve_triangular(
      system.tril(-1), at::cat({beta * v, k_start}, -1), /*upper=*/false, /*left=*/true,
      /*unitriangular=*/true);
  result.U = solved.narrow(-1, 0, a.V);
  result.W = solved.narrow(-1, a.V, a.K);
  return result;
}

DeltaProductOutput chunked_dense(const DeltaProductArguments& a) {
  const int64_t C = std::clamp<int64_t>(a.T, 1, std::max<int64_t>(1, kRows / a.N));
  // One chunk even without tokens, so that the gradients are connected all the same.
  const int64_t chunks = std::max<int64_t>(1, (a.T + C - 1) / C);
  const Chunks all = make_chunks(a, chunks, C);
  const auto U = all.U.unbind(2), W = all.W.unbind(2), k_end_t = all.k_end_t.unbind(2);
  const auto total = all.total.defined() ? all.total.unbind(2) : std::vector<at::Tensor>();
  at::Tensor state = initial_state(a);
  std::vector<at::Tensor> states, u;
  for (int64_t c = 0; c < chunks; ++c) {
    states.push_back(state);
    u.push_back(U[c] - W[c].matmul(state));  // [B,H,R,V]
    if (all.total.defined()) state = state * total[c];
    state = state + k_end_t[c].matmul(u.back());
  }
  const at::Tensor o =  // [B,H,chunks,C,V]
      all.q_start.matmul(at::stack(states, 2)) + all.scores.matmul(at::stack(u, 2));
  const at::Tensor tokens = o.permute({0, 2, 3, 1, 4}).reshape({a.B, chunks * C, a.H, a.V});
  return {tokens.narrow(1, 0, a.T).to(a.q.scalar_type()), state};
}

}  // namespace

DeltaProductOutput delta_product_chunked(const DeltaProductArguments& arguments) {
  return for_each_sequence(arguments, chunked_dense);
}

}  // namespace dp
