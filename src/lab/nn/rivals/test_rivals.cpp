#include "nn/rivals/test_rivals.h"

#include <ATen/ATen.h>

#include <cmath>

namespace dp {
namespace {

at::Tensor times(const at::Tensor& x, const at::Tensor& weight) {
  return at::matmul(x, weight.t());
}

at::Tensor silu_reference(const at::Tensor& x) { return x * at::sigmoid(x); }

// Causal, one filter per channel: x [B,T,C], weight [C,1,W]
at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t W = weight.size(2);
  const at::Tensor padded = at::constant_pad_nd(x, {0, 0, W - 1, 0});
  at::Tensor y = at::zeros_like(x);
  for (int64_t w = 0; w < W; ++w)
    y = y + padded.slice(1, w, w + x.size(1)) * weight.select(1, 0).select(1, w);
  return silu_reference(bias.defined() ? y + bias : y);
}

// [B,T,H,width] of a projection, convolved if there is a convolution.
at::Tensor project_heads(const WeightOf& weight, const std::string& letter, const at::Tensor& x,
                    int64_t heads, bool silu_anyway) {
  at::Tensor y = times(x, weight(letter + "_proj.weight"));
  if (const at::Tensor conv = weight(letter + "_conv1d.weight"); conv.defined())
    y = convolved(y, conv, weight(letter + "_conv1d.bias"));
  else if (silu_anyway)
    y = silu_reference(y);
  return y.view({x.size(0), x.size(1), heads, y.size(2) / heads});
}

at::Tensor normed(const at::Tensor& o, const at::Tensor& weight, double eps) {
  return o * at::rsqrt(o.square().mean(-1, true) + eps) * weight;
}

// norm, SiLU gate, projection of o [B,T,H,V]
at::Tensor read_out(const ModelConfig& c, const WeightOf& weight, const at::Tensor& o,
                    const at::Tensor& x) {
  at::Tensor y = normed(o, weight("o_norm.weight"), c.norm_eps).flatten(2);
  if (c.use_output_gate) y = y * silu_reference(times(x, weight("g_proj.weight")));
  return times(y, weight("o_proj.weight"));
}

at::Tensor transformer(const ModelConfig& c, const WeightOf& weight, const at::Tensor& x) {
  const int64_t T = x.size(1), H = c.num_heads, K = c.head_dim;
  const at::Tensor wave = at::exp(-std::log(c.transformer.rope_theta) * at::arange(K / 2, at::kDouble) /
                                  static_cast<double>(K / 2));
  const at::Tensor angle = at::outer(at::arange(T, at::kDouble), wave);
  const at::Tensor turn = at::polar(at::ones_like(angle), angle).unsqueeze(1);  // [T,1,K/2]
  const auto turned = [&](const at::Tensor& heads) {
    const at::Tensor z =
        at::complex(heads.narrow(-1, 0, K / 2), heads.narrow(-1, K / 2, K / 2)) * turn;
    return at::cat({at::real(z), at::imag(z)}, -1).to(x.scalar_type());
  };
  const at::Tensor q = turned(project_heads(weight, "q", x, H, false)),
                   k = turned(project_heads(weight, "k", x, H, false)),
                   v = project_heads(weight, "v", x, H, false);
  std::vector<at::Tensor> o;
  for (int64_t t = 0; t < T; ++t) {
    const at::Tensor scores = (q.slice(1, t, t + 1) * k.slice(1, 0, t + 1)).sum(-1, true) /
                              std::sqrt(static_cast<double>(K));  // [B,t+1,H,1]
    const at::Tensor share = at::exp(scores) / at::exp(scores).sum(1, true);
    o.push_back((share * v.slice(1, 0, t + 1)).sum(1));
  }
  return times(at::stack(o, 1).flatten(2), weight("o_proj.weight"));
}

// [T,T], 1 where the second index is not after the first
at::Tensor past(const at::Tensor& x) {
  return at::ones({x.size(1), x.size(1)}, x.options()).tril();
}

at::Tensor gla(const ModelConfig& c, const WeightOf& weight, const at::Tensor& x) {
  const int64_t H = c.num_heads;
  const at::Tensor q = project_heads(weight, "q", x, H, false), k = project_heads(weight, "k", x, H, false),
                   v = project_heads(weight, "v", x, H, false);
  const at::Tensor logits =
      times(times(x, weight("gk_proj.0.weight")), weight("gk_proj.1.weight")) +
      weight("gk_proj.1.bias");
  const at::Tensor log_alpha =
      (at::log(at::sigmoid(logits)) / c.gla.gate_logit_normalizer).view(k.sizes()).cumsum(1);
  // scores[b,t,s,h] = sum_i q[t,i] exp(G[t,i] - G[s,i]) k[s,i]
  const at::Tensor decay = at::exp(log_alpha.unsqueeze(2) - log_alpha.unsqueeze(1));
  const at::Tensor scores = (q.unsqueeze(2) * decay * k.unsqueeze(1)).sum(-1) *
                            past(x).unsqueeze(-1) / std::sqrt(static_cast<double>(c.head_dim));
  return read_out(c, weight, at::einsum("btsh,bshv->bthv", {scores, v}), x);
}

at::Tensor mlstm(const ModelConfig& c, const WeightOf& weight, const at::Tensor& x) {
  const int64_t H = c.num_heads;
  const at::Tensor q = project_heads(weight, "q", x, H, false), k = project_heads(weight, "k", x, H, false),
                   v = project_heads(weight, "v", x, H, false);
  const at::Tensor log_i = times(x, weight("igate.weight")) + weight("igate.bias");
  const at::Tensor log_f =
      at::log(at::sigmoid(times(x, weight("fgate.weight")) + weight("fgate.bias"))).cumsum(1);
  const at::Tensor gates =
      at::exp((log_f.unsqueeze(2) - log_f.unsqueeze(1) + log_i.unsqueeze(1)).clamp_max(60)) *
      past(x).unsqueeze(-1);  // [B,t,s,H]
  const at::Tensor scores =
      at::einsum("bthk,bshk->btsh", {q, k}) * gates / std::sqrt(static_cast<double>(c.head_dim));
  const at::Tensor normaliser = scores.sum(2).abs().clamp_min(1).unsqueeze(-1);  // [B,t,H,1]
  const at::Tensor h = at::einsum("btsh,bshv->bthv", {scores, v}) / normaliser;
  at::Tensor y = normed(h, weight("o_norm.weight"), c.norm_eps).flatten(2);
  if (c.use_output_gate) y = y * at::sigmoid(times(x, weight("g_proj.weight")));
  return times(y, weight("o_proj.weight"));
}

at::Tensor slstm_by_paper(const ModelConfig& c, const WeightOf& weight, const at::Tensor& x) {
  const int64_t B = x.size(0), T = x.size(1), H = c.num_heads, K = c.head_dim;
  const at::Tensor conv = weight("conv1d.weight");
  const at::Tensor early = conv.defined() ? convolved(x, conv, weight("conv1d.bias")) : x;
  const at::Tensor gates_if = times(early, weight("if_proj.weight")).view({B, T, 2, H, K}),
                   gates_zo = times(x, weight("zo_proj.weight")).view({B, T, 2, H, K});
  const at::Tensor recurrent = weight("recurrent.weight");  // [H,4,K,K]
  at::Tensor h = at::zeros({B, H, K}, x.options()), cell = h, count = h;
  std::vector<at::Tensor> all;
  for (int64_t t = 0; t < T; ++t) {
    const auto gate = [&](const at::Tensor& from, int64_t which, int64_t order, const char* bias) {
      return from.select(1, t).select(1, which) + weight(bias) +
             at::einsum("hij,bhj->bhi", {recurrent.select(1, order), h});
    };
    const at::Tensor i = at::exp(gate(gates_if, 0, 0, "i.bias")),
                     f = at::sigmoid(gate(gates_if, 1, 1, "f.bias")),
                     z = at::tanh(gate(gates_zo, 0, 2, "z.bias")),
                     o = at::sigmoid(gate(gates_zo, 1, 3, "o.bias"));
    cell = f * cell + i * z;
    count = f * count + i;
    h = o * cell / count;
    all.push_back(h);
  }
  return times(normed(at::stack(all, 1), weight("o_norm.weight"), c.norm_eps).flatten(2),
               weight("o_proj.weight"));
}

at::Tensor mamba(const ModelConfig& c, const WeightOf& weight, const at::Tensor& x) {
  const int64_t T = x.size(1), N = c.mamba.state_size, R = (c.hidden_size + 15) / 16;
  const std::vector<at::Tensor> halves = times(x, weight("in_proj.weight")).chunk(2, -1);
  const at::Tensor conv = weight("conv1d.weight");
  const at::Tensor u =
      conv.defined() ? convolved(halves[0], conv, weight("conv1d.bias")) : silu_reference(halves[0]);
  const std::vector<at::Tensor> parts =
      times(u, weight("x_proj.weight")).split_with_sizes({R, N, N}, -1);
  const at::Tensor dt = at::log1p(
      at::exp(times(parts[0], weight("dt_proj.weight")) + weight("dt_proj.bias")));  // [B,T,E]
  at::Tensor a = at::exp(dt.unsqueeze(-1) * -at::exp(weight("A_log")));              // [B,T,E,N]
  if (c.allow_neg_eigval) a = 2 * a - 1;
  const at::Tensor written = (dt * u).unsqueeze(-1) * parts[1].unsqueeze(2);
  std::vector<at::Tensor> y;
  for (int64_t t = 0; t < T; ++t) {
    at::Tensor sum = at::zeros_like(written.select(1, 0));
    for (int64_t s = 0; s <= t; ++s)
      sum = sum +
            (s < t ? a.slice(1, s + 1, t + 1).prod(1) : at::ones_like(sum)) * written.select(1, s);
    y.push_back((sum * parts[2].select(1, t).unsqueeze(1)).sum(-1));
  }
  return times((at::stack(y, 1) + weight("D") * u) * silu_reference(halves[1]), weight("out_proj.weight"));
}

at::Tensor rwkv7(const ModelConfig& c, const WeightOf& weight, const at::Tensor& x) {
  const int64_t B = x.size(0), T = x.size(1), N = c.num_householder, H = c.num_heads,
                K = c.head_dim, V = c.value_head_dim();
  const auto unit = [](const at::Tensor& y) {
    return y * at::rsqrt(y.square().sum(-1, true) + 1e-6);
  };
  const at::Tensor q = unit(project_heads(weight, "q", x, H, true)),
                   k = unit(project_heads(weight, "k", x, N * H, true)).view({B, T, N, H, K}),
                   v = project_heads(weight, "v", x, N * H, true).view({B, T, N, H, V});
  const auto gate = [&](const std::string& name) {
    const at::Tensor logits =
        times(times(x, weight(name + ".0.weight")), weight(name + ".1.weight"));
    return at::sigmoid(logits.view(k.sizes()) + weight(name + ".bias"));
  };
  const at::Tensor a = gate("a_proj");
  const at::Tensor w =
      c.use_forget_gate ? at::exp(-std::exp(-0.5) * gate("w_proj")) : at::ones_like(k);
  at::Tensor state = at::zeros({B, H, K, V}, x.options());
  std::vector<at::Tensor> o;
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t n = 0; n < N; ++n) {
      const auto now = [&](const at::Tensor& y) { return y.select(1, t).select(1, n); };
      const at::Tensor key = now(k).unsqueeze(-1), row = (now(k) * now(a)).unsqueeze(-2);
      const at::Tensor transition =
          at::diag_embed(now(w)) - (c.allow_neg_eigval ? 2 : 1) * at::matmul(key, row);
      state =
          at::matmul(transition, state) + at::matmul(row.transpose(-1, -2), now(v).unsqueeze(-2));
    }
    o.push_back(at::einsum("bhk,bhkv->bhv", {q.select(1, t), state}) /
                std::sqrt(static_cast<double>(K)));
  }
  return read_out(c, weight, at::stack(o, 1), x);
}

}  // namespace

std::vector<ModelConfig> rival_configs() {
  std::vector<ModelConfig> configs;
  for (const Architecture architecture : architectures()) {
    if (architecture == Architecture::kDeltaProduct) continue;
    for (const bool on : {false, true}) {
      ModelConfig c;
      c.architecture = architecture;
      c.vocab_size = 19, c.hidden_size = 20, c.num_hidden_layers = 2;
      c.num_heads = 2, c.head_dim = 6, c.expand_v = on ? 1.5 : 1, c.intermediate_size = 24;
      c.use_short_conv = on, c.conv_size = 3, c.use_output_gate = on, c.allow_neg_eigval = on;
      c.use_forget_gate = c.architecture == Architecture::kGatedDeltaNet || (on && c.architecture != Architecture::kDeltaNet);
      c.num_householder = on && c.architecture == Architecture::kRwkv7 ? 2 : 1;
      c.mamba = {.state_size = 5, .expand = 1.5};
      c.gla.gate_low_rank_dim = c.rwkv7.gate_low_rank_dim = 3;
      configs.push_back(c);
    }
  }
  return configs;
}

at::Tensor reference_rival(const ModelConfig& c, const WeightOf& weight, const at::Tensor& x) {
  switch (c.architecture) {
    case Architecture::kTransformer: return transformer(c, weight, x);
    case Architecture::kGla: return gla(c, weight, x);
    case Architecture::kMlstm: return mlstm(c, weight, x);
    case Architecture::kSlstm: return slstm_by_paper(c, weight, x);
    case Architecture::kMamba: return mamba(c, weight, x);
    case Architecture::kRwkv7: return rwkv7(c, weight, x);
    default: return {};
  }
}

}  // namespace dp
