// A step waits for the one before it, so speed comes from taking sequences together: for one head of a
// group of sequences, R h is a matrix product that reads R once. Sequences are sorted by length, so that
// those which have not ended are the first rows of the group.
#include "kernels/slstm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/slstm.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/activations-inl.h"
#include "kernels/scratch.h"
#include "kernels/tile-inl.h"
#include "kernels/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {

constexpr size_t kGroup = 12;  // sequences: two tiles of six rows on AVX2
constexpr size_t kDepth = 64;  // tokens whose share of R's gradient is summed at once
constexpr size_t kSaved = 7;   // activations kept per unit: i, f, 1 - sigmoid(u_f), z, o, f c, f n
constexpr float kInfinity = std::numeric_limits<float>::infinity();

size_t padded(size_t columns) { return round_up(columns, kPanel); }

// to += tile
template <size_t R, size_t W>
HWY_INLINE void add_tile(const Tile<R, W>& tile, Tile<R, W>& to) {
  DP_FOR_TILE (r, c) to.v[r][c] = hn::Add(to.v[r][c], tile.v[r][c]);
}

// out = a M: a [rows,depth], M [depth,columns] packed as [panels,depth,kPanel] with zeros beyond its last
// column. A row of `out` has padded(columns) floats.
void multiply(const float* a, size_t rows, size_t a_stride, const float* packed, size_t depth,
              size_t columns, float* out) {
  const size_t stride = padded(columns);
  for (size_t at = 0; at < stride; at += kPanel, packed += depth * kPanel)
    for_tiles(rows, [&](auto height, size_t first) HWY_ATTR {
      Tile<height()> tile;
      set_zero(tile);
      add_product(tile, a + first * a_stride, a_stride, packed, kPanel, depth);
      store(tile, out + first * stride + at, stride);
    });
}

// Of one head, R [4K,K]: its transpose for the forward pass, as it is for the backward pass.
void pack_transposed(const float* R, size_t K, float* packed) {
  for (size_t at = 0; at < 4 * K; at += kPanel, packed += K * kPanel) {
    const size_t columns = std::min(kPanel, 4 * K - at);
    if (columns < kPanel) std::memset(packed, 0, K * kPanel * sizeof(float));
    transpose(R + at * K, K, columns, K, packed, kPanel);
  }
}

void pack(const float* R, size_t K, float* packed) {
  for (size_t at = 0; at < K; at += kPanel) {
    const size_t columns = std::min(kPanel, K - at);
    for (size_t row = 0; row < 4 * K; ++row, packed += kPanel) {
      std::copy_n(R + row * K + at, columns, packed);
      std::fill(packed + columns, packed + kPanel, 0.0f);
    }
  }
}

// Who works on what. The split may depend on the threads, since no row's result depends on its group.
class Groups {
 public:
  Groups(const SlstmInputs& in, int threads) : in_(in), order_(in.num_sequences) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return length(a) > length(b); });
    const size_t S = order_.size(), per_head = ceil_div(static_cast<size_t>(threads), in.H);
    const size_t groups = std::max(ceil_div(S, kGroup), std::min(S, per_head));
    size_ = S == 0 ? 1 : ceil_div(S, groups);
    groups_ = ceil_div(S, size_);
  }

  size_t tasks() const { return in_.H * groups_; }
  size_t head(size_t task) const { return task / groups_; }
  size_t first(size_t task) const { return task % groups_ * size_; }
  size_t rows(size_t task) const { return std::min(size_, order_.size() - first(task)); }
  size_t sequence(size_t task, size_t row) const { return order_[first(task) + row]; }
  size_t length(size_t sequence) const { return in_.length(sequence); }
  size_t longest(size_t task) const { return length(sequence(task, 0)); }

 private:
  const SlstmInputs& in_;
  std::vector<size_t> order_;
  size_t size_ = 1, groups_ = 0;
};

// Where a head's part of a token or of a sequence's state begins.
struct Layout {
  const SlstmInputs& in;
  size_t head;

  size_t token(size_t s, size_t t) const { return (in.first_token(s) + t) * in.H + head; }
  size_t state(size_t s) const { return (s * in.H + head) * 4 * in.K; }
};

// One row of a group, one step: `u` [4,K] is R h_{t-1}; h, c, n, m [K] are replaced.
void forward_row(size_t K, const float* HWY_RESTRICT gates, const float* HWY_RESTRICT u,
                 float* HWY_RESTRICT h, float* HWY_RESTRICT c, float* HWY_RESTRICT n,
                 float* HWY_RESTRICT m, float* HWY_RESTRICT saved) {
  for_vectors(K, [&](auto d, size_t k) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    const V one = hn::Set(d, 1.0f);
    const auto gate = [&](size_t g) HWY_ATTR {
      return hn::Add(hn::LoadU(d, gates + g * K + k), hn::LoadU(d, u + g * K + k));
    };
    const V u_i = gate(0), u_f = gate(1), z = hn::Tanh(d, gate(2)), o = sigmoid(d, gate(3));
    // sigmoid(x) = 1 / (1 + e) for x > 0 and e / (1 + e) below, with e = exp(-|x|)
    V x[1] = {hn::Abs(u_f)}, e[1];
    exp_minus(d, x, e);
    const V inverse = hn::Div(one, hn::Add(one, e[0]));
    const V rest = hn::IfThenElse(hn::Gt(u_f, hn::Zero(d)), hn::Mul(e[0], inverse), inverse);
    const V log_f = hn::Sub(hn::Min(u_f, hn::Zero(d)), hn::Log1p(d, e[0]));
    // The larger of the exponents becomes 0. Without a state the old one is -infinity, and f = 0.
    const V a = hn::Add(log_f, hn::LoadU(d, m + k)), ahead = hn::Sub(a, u_i);
    x[0] = hn::Abs(ahead);
    exp_minus(d, x, e);
    const auto keeps = hn::Gt(ahead, hn::Zero(d));
    const V i = hn::IfThenElse(keeps, e[0], one), f = hn::IfThenElse(keeps, one, e[0]);
    const V fc = hn::Mul(f, hn::LoadU(d, c + k)), fn = hn::Mul(f, hn::LoadU(d, n + k));
    const V c_t = hn::MulAdd(i, z, fc), n_t = hn::Add(fn, i);
    hn::StoreU(hn::Mul(o, hn::Div(c_t, n_t)), d, h + k);
    hn::StoreU(c_t, d, c + k);
    hn::StoreU(n_t, d, n + k);
    hn::StoreU(hn::IfThenElse(keeps, a, u_i), d, m + k);
    if (saved == nullptr) return;
    const V keep[kSaved] = {i, f, rest, z, o, fc, fn};
    DP_FOR (j, kSaved) hn::StoreU(keep[j], d, saved + j * K + k);
  });
}

// The gradients of u, with dh the gradient of h_t from all sides, dc and dn from later tokens only;
// leaves those from here on in dc and dn.
void backward_row(size_t K, const float* HWY_RESTRICT saved, const float* HWY_RESTRICT dy,
                  const float* HWY_RESTRICT dh_later, float* HWY_RESTRICT dc,
                  float* HWY_RESTRICT dn, float* HWY_RESTRICT du) {
  for_vectors(K, [&](auto d, size_t k) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    const V one = hn::Set(d, 1.0f);
    const auto load = [&](size_t j) HWY_ATTR { return hn::LoadU(d, saved + j * K + k); };
    const V i = load(0), f = load(1), rest = load(2), z = load(3), o = load(4);
    const V fc = load(5), fn = load(6);
    const V dh = hn::Add(hn::LoadU(d, dy + k), hn::LoadU(d, dh_later + k));
    const V inverse = hn::Div(one, hn::Add(fn, i)), ratio = hn::Mul(hn::MulAdd(i, z, fc), inverse);
    const V dh_o = hn::Mul(dh, o), d_ratio = hn::Mul(dh_o, inverse);
    const V dc_t = hn::Add(hn::LoadU(d, dc + k), d_ratio);
    const V dn_t = hn::NegMulAdd(d_ratio, ratio, hn::LoadU(d, dn + k));
    const V d_log_f = hn::MulAdd(dc_t, fc, hn::Mul(dn_t, fn));
    hn::StoreU(hn::Mul(i, hn::MulAdd(dc_t, z, dn_t)), d, du + k);
    hn::StoreU(hn::Mul(rest, d_log_f), d, du + K + k);
    hn::StoreU(hn::Mul(hn::Mul(dc_t, i), hn::NegMulAdd(z, z, one)), d, du + 2 * K + k);
    hn::StoreU(hn::Mul(hn::Mul(dh_o, ratio), hn::Sub(one, o)), d, du + 3 * K + k);
    hn::StoreU(hn::Mul(dc_t, f), d, dc + k);
    hn::StoreU(hn::Mul(dn_t, f), d, dn + k);
  });
}

void forward_group(const SlstmInputs& in, const Groups& groups, size_t task, const float* packed,
                   float* h_out, float* final_state, float* saved) {
  const size_t K = in.K, rows = groups.rows(task), u_stride = padded(4 * K);
  const Layout at{in, groups.head(task)};
  float *parts[4], *u;
  const Scratch scratch([&](ScratchLayout& layout) {
    for (float*& part : parts) part = layout.take(rows * K);
    u = layout.take(rows * u_stride);
  });
  float *const h = parts[0], *const c = parts[1], *const n = parts[2], *const m = parts[3];
  for (size_t row = 0; row < rows; ++row) {
    const size_t state = at.state(groups.sequence(task, row));
    for (size_t j = 0; j < 4; ++j)
      if (in.state != nullptr)
        std::copy_n(in.state + state + j * K, K, parts[j] + row * K);
      else
        std::fill_n(parts[j] + row * K, K, 0.0f);
    for (size_t k = row * K; k < (row + 1) * K; ++k)
      if (n[k] == 0) m[k] = -kInfinity;
  }
  size_t running = rows;
  for (size_t t = 0; t < groups.longest(task); ++t) {
    while (groups.length(groups.sequence(task, running - 1)) <= t) --running;
    multiply(h, running, K, packed, K, 4 * K, u);
    for (size_t row = 0; row < running; ++row) {
      const size_t token = at.token(groups.sequence(task, row), t), first = row * K;
      forward_row(K, in.gates + token * 4 * K, u + row * u_stride, h + first, c + first, n + first,
                  m + first, saved == nullptr ? nullptr : saved + token * kSaved * K);
      std::copy_n(h + first, K, h_out + token * K);
    }
  }
  for (size_t row = 0; row < rows; ++row) {
    for (size_t k = row * K; k < (row + 1) * K; ++k)
      if (n[k] == 0) m[k] = 0;
    for (size_t j = 0; j < 4; ++j)
      std::copy_n(parts[j] + row * K, K,
                  final_state + at.state(groups.sequence(task, row)) + j * K);
  }
}

void backward_group(const SlstmInputs& in, const Groups& groups, size_t task, const float* packed,
                    const float* saved, const SlstmGradients& gradients) {
  const size_t K = in.K, rows = groups.rows(task), stride = padded(K);
  const Layout at{in, groups.head(task)};
  float *parts[3], *du;
  const Scratch scratch([&](ScratchLayout& layout) {
    for (float*& part : parts) part = layout.take(rows * stride);
    du = layout.take(rows * 4 * K);
  });
  float *const dh = parts[0], *const dc = parts[1], *const dn = parts[2];
  for (size_t row = 0; row < rows; ++row)
    for (size_t j = 0; j < 3; ++j)
      if (gradients.d_final_state != nullptr)
        std::copy_n(gradients.d_final_state + at.state(groups.sequence(task, row)) + j * K, K,
                    parts[j] + row * stride);
      else
        std::fill_n(parts[j] + row * stride, K, 0.0f);
  size_t running = 0;
  for (size_t t = groups.longest(task); t-- > 0;) {
    while (running < rows && groups.length(groups.sequence(task, running)) > t) ++running;
    for (size_t row = 0; row < running; ++row) {
      const size_t token = at.token(groups.sequence(task, row), t), first = row * stride;
      backward_row(K, saved + token * kSaved * K, gradients.dh + token * K, dh + first, dc + first,
                   dn + first, du + row * 4 * K);
      std::copy_n(du + row * 4 * K, 4 * K, gradients.dgates + token * 4 * K);
    }
    multiply(du, running, 4 * K, packed, 4 * K, K, dh);
  }
  if (gradients.dstate == nullptr) return;
  for (size_t row = 0; row < rows; ++row) {
    float* dstate = gradients.dstate + at.state(groups.sequence(task, row));
    for (size_t j = 0; j < 3; ++j) std::copy_n(parts[j] + row * stride, K, dstate + j * K);
    std::fill_n(dstate + 3 * K, K, 0.0f);
  }
}

// The gradient [K,K] of R for one head and gate: the sum over tokens of du_t h_{t-1}^T, kDepth at a time.
class RecurrentGradient {
 public:
  explicit RecurrentGradient(size_t K)
      : K_(K),
        // Rows a power of 2 apart would share a few sets of the cache.
        du_stride_(padded(K) + kPanel),
        stride_(padded(K)),
        scratch_([&](ScratchLayout& layout) {
          du_ = layout.take(kDepth * du_stride_);
          h_ = layout.take(kDepth * stride_);
          sum_ = layout.take(K * stride_);
        }) {
    std::fill_n(h_, kDepth * stride_, 0.0f);
    std::fill_n(sum_, K * stride_, 0.0f);
  }

  void add(const float* du, const float* h) {
    std::copy_n(du, K_, du_ + filled_ * du_stride_);
    for (size_t at = 0; at < K_; at += kPanel)
      std::copy_n(h + at, std::min(kPanel, K_ - at), h_ + at * kDepth + filled_ * kPanel);
    if (++filled_ == kDepth) flush();
  }

  void finish(float* out) {
    flush();
    for (size_t row = 0; row < K_; ++row) std::copy_n(sum_ + row * stride_, K_, out + row * K_);
  }

 private:
  void flush() {
    for (size_t at = 0; at < stride_; at += kPanel)
      for_tiles(K_, [&](auto height, size_t first) HWY_ATTR {
        Tile<height()> tile, sum;
        set_zero(tile);
        add_product_t(tile, du_ + first, du_stride_, h_ + at * kDepth, kPanel, filled_);
        float* total = sum_ + first * stride_ + at;
        load(sum, total, stride_);
        add_tile(tile, sum);
        store(sum, total, stride_);
      });
    filled_ = 0;
  }

  size_t K_, du_stride_, stride_;
  Scratch scratch_;
  float *du_, *h_;  // [kDepth,du_stride], [panels,kDepth,kPanel]
  float* sum_;      // [K,stride]
  size_t filled_ = 0;
};

void recurrent_gradient(const SlstmInputs& in, const float* h, const float* dgates, size_t head,
                        size_t gate, float* out) {
  const size_t K = in.K;
  const Layout at{in, head};
  RecurrentGradient gradient(K);
  for (size_t s = 0; s < in.num_sequences; ++s) {
    for (size_t t = 0; t < in.length(s); ++t) {
      if (t == 0 && in.state == nullptr) continue;
      const float* before = t == 0 ? in.state + at.state(s) : h + at.token(s, t - 1) * K;
      gradient.add(dgates + (at.token(s, t) * 4 + gate) * K, before);
    }
  }
  gradient.finish(out);
}

void slstm_forward_target(const SlstmInputs& in, float* h, float* final_state, float* saved,
                          Executor& executor) {
  const size_t K = in.K, size = K * padded(4 * K);
  const Groups groups(in, executor.num_threads());
  const Scratch scratch(in.H * size);
  float* const packed = scratch.data();
  executor.run(in.H, [&](size_t head) HWY_ATTR {
    pack_transposed(in.recurrent + head * 4 * K * K, K, packed + head * size);
  });
  executor.run(groups.tasks(), [&](size_t task) HWY_ATTR {
    forward_group(in, groups, task, packed + groups.head(task) * size, h, final_state, saved);
  });
}

void slstm_backward_target(const SlstmInputs& in, const float* h, const float* saved,
                           const SlstmGradients& gradients, Executor& executor) {
  const size_t K = in.K, size = 4 * K * padded(K);
  const Groups groups(in, executor.num_threads());
  const Scratch scratch(in.H * size);
  float* const packed = scratch.data();
  executor.run(in.H, [&](size_t head) HWY_ATTR {
    pack(in.recurrent + head * 4 * K * K, K, packed + head * size);
  });
  executor.run(groups.tasks(), [&](size_t task) HWY_ATTR {
    backward_group(in, groups, task, packed + groups.head(task) * size, saved, gradients);
  });
  if (gradients.drecurrent == nullptr) return;
  executor.run(4 * in.H, [&](size_t task) HWY_ATTR {
    recurrent_gradient(in, h, gradients.dgates, task / 4, task % 4,
                       gradients.drecurrent + task * K * K);
  });
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
namespace {

HWY_EXPORT(slstm_forward_target);
HWY_EXPORT(slstm_backward_target);

// Less than this many products is done sooner than another thread wakes up.
constexpr size_t kSerialProducts = 1 << 16;

bool is_small(const SlstmInputs& in) {
  return in.num_tokens() * in.H * 4 * in.K * in.K <= kSerialProducts;
}

}  // namespace

size_t slstm_saved_size(const SlstmInputs& in) {
  return in.num_tokens() * in.H * HWY_NAMESPACE::kSaved * in.K;
}

void slstm_forward(const SlstmInputs& in, float* h, float* final_state, float* saved,
                   Executor& executor) {
  SerialExecutor serial;
  HWY_DYNAMIC_DISPATCH(slstm_forward_target)
  (in, h, final_state, saved, is_small(in) ? serial : executor);
}

void slstm_backward(const SlstmInputs& in, const float* h, const float* saved,
                    const SlstmGradients& gradients, Executor& executor) {
  SerialExecutor serial;
  HWY_DYNAMIC_DISPATCH(slstm_backward_target)
  (in, h, saved, gradients, is_small(in) ? serial : executor);
}

}  // namespace dp
#endif
