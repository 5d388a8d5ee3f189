// Backward pass, chunk by chunk from the last: the sweep carries the gradient of the state, the
// gradients of a chunk's inputs follow from what it leaves.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk_backward.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/chunk-inl.h"
#include "kernels/chunk_gradients-inl.h"
#include "kernels/chunk_kernels.h"
#include "kernels/chunk_sweep-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {

class BackwardPass {
 public:
  BackwardPass(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice,
               const float* saved, const DeltaProductGradients& gradients,
               const SweepBuffers* buffers)
      : in_(inputs),
        plan_(plan),
        slice_(slice),
        saved_(saved),
        out_(gradients),
        buffers_(buffers),
        chunk_(inputs, slice.sequence, plan.C),
        stream_dv_(should_stream(out_.dv, inputs.V, num_rows() * inputs.N, out_.dv_pitch)),
        stream_dk_(should_stream(out_.dk, inputs.K, num_rows() * inputs.N, out_.dk_pitch)),
        stream_dq_(should_stream(out_.dq, inputs.K, num_rows(), out_.dq_pitch)),
        sweep_(chunk_, plan, saved_chunk_, prefetcher_, stream_dv_),
        gradients_(chunk_, plan, saved_chunk_, prefetcher_, gradients, stream_dk_, stream_dq_),
        scratch_([&](ScratchLayout& layout) {
          chunk_.lay_out(layout);
          sweep_.lay_out(layout);
          gradients_.lay_out(layout);
          d_o_ = layout.take(chunk_.Q * plan.panels * kPanel);
        }) {}

  void run(const BackwardWork& work) {
    const size_t size = in_.K * in_.V;
    for (size_t h = slice_.head_begin; work.sweep && h < slice_.head_end; ++h) {
      const float* d_final = out_.d_final_state == nullptr
                                 ? nullptr
                                 : out_.d_final_state + (slice_.sequence * in_.H + h) * size;
      pack_state(d_final, in_.K, in_.V, slice_.panel_begin, slice_.panel_end,
                 d_state(h, work.chunk_end));
    }
    for (size_t c = work.chunk_end; c-- > work.chunk_begin;) {
      const auto next = c > work.chunk_begin ? NextChunk(slice_, c - 1)
                        : work.sweep         ? NextChunk::in_next_slice(slice_, in_, plan_, true)
                                             : std::nullopt;
      prefetch_rows(next);
      chunk_.select_chunk(c);
      for (size_t h = slice_.head_begin; h < slice_.head_end; ++h) {
        if (h + 1 < slice_.head_end) {
          prefetch_saved(slice_.sequence, c, h + 1);
        } else if (next) {
          prefetch_saved(next->sequence, next->chunk, next->head_begin);
        }
        chunk_.load_head_for_backward(h);
        saved_chunk_ = saved_chunk(saved_, plan_, in_.H, slice_.sequence, c, h);
        for (size_t p = slice_.panel_begin; p < slice_.panel_end; ++p)
          pack_panel(out_.d_o + chunk_.rows().at_query(in_.H * in_.V, in_.V), in_.H * in_.V,
                     chunk_.num_queries(), in_.V, p, d_o_panel(p));
        // The gradients need the state's gradient after the chunk, which compute_d_state() may overwrite.
        if (work.sweep) compute_d_updates(c);
        if (work.gradients) compute_gradients(c);
        if (work.sweep) compute_d_state(c);
      }
    }
    hwy::FlushStream();
    if (!work.sweep || out_.dstate == nullptr) return;
    for (size_t h = slice_.head_begin; h < slice_.head_end; ++h)
      unpack_state(d_state(h, work.chunk_begin), in_.K, in_.V, slice_.panel_begin, slice_.panel_end,
                   out_.dstate + (slice_.sequence * in_.H + h) * size);
  }

 private:
  // Rows [tokens,H] of q.
  size_t num_rows() const { return in_.num_tokens() * in_.H; }

  // The rows that the heads will read and write in the next chunk.
  void prefetch_rows(const std::optional<NextChunk>& next) {
    Prefetcher& prefetcher = prefetcher_.next_chunk;
    prefetcher.clear();
    if (!next) return;
    const size_t heads = next->heads;
    const ChunkRows rows = next->rows(in_, plan_.C);
    const auto add_steps = [&](const float* array, size_t width, size_t pitch) {
      pitch = pitch == 0 ? in_.H * width : pitch;
      prefetcher.add(array + rows.at_step(pitch, width), pitch, heads * width, rows.steps);
    };
    const auto add_queries = [&](const float* array, size_t width, size_t pitch) {
      pitch = pitch == 0 ? in_.H * width : pitch;
      prefetcher.add(array + rows.at_query(pitch, width), pitch, heads * width, rows.num_queries);
    };
    add_steps(in_.k, in_.K, in_.k_pitch);
    add_queries(in_.q, in_.K, in_.q_pitch);
    add_queries(out_.d_o, in_.V, 0);
    if (!stream_dv_) add_steps(out_.dv, in_.V, out_.dv_pitch);
    if (!stream_dk_) add_steps(out_.dk, in_.K, out_.dk_pitch);
    if (!stream_dq_) add_queries(out_.dq, in_.K, out_.dq_pitch);
    prefetcher.start((slice_.head_end - slice_.head_begin) * advances_per_head());
  }

  // What was saved of one chunk of one head.
  void prefetch_saved(size_t sequence, size_t c, size_t h) {
    Prefetcher& prefetcher = prefetcher_.next_head;
    const size_t size = plan_.saved_size();
    prefetcher.clear();
    prefetcher.add(saved_chunk(saved_, plan_, in_.H, sequence, c, h).state, size, size, 1);
    prefetcher.start(advances_per_head());
  }

  // About how many tiles call advance() in sweep and gradients of a chunk.
  size_t advances_per_head() const {
    constexpr size_t kRows = kMaxRows<kTilePanels * kVecs>;
    const auto tiles = [](size_t rows, size_t panels) {
      return (rows / kRows + 1) * ceil_div(panels, kTilePanels);
    };
    const size_t key_panels = ceil_div(in_.K, kPanel), step_panels = plan_.C / kPanel;
    return tiles(plan_.C + in_.K, plan_.panels) + tiles(in_.K, step_panels) + tiles(in_.K, 1) +
           tiles(plan_.C + plan_.queries, key_panels);
  }

  // Gradient of the state of head h before chunk c, in panels.
  float* d_state(size_t h, size_t c) const {
    const SweepBuffers& buffers = buffers_[h - slice_.head_begin];
    return buffers.d_states + buffers.slot(c) * plan_.state_size;
  }
  // Gradients of the chunk's updates, of the head that is loaded.
  float* d_updates(size_t c) const {
    const SweepBuffers& buffers = buffers_[chunk_.head() - slice_.head_begin];
    return buffers.d_updates + buffers.slot(c) * plan_.errors_size;
  }
  float* d_o_panel(size_t p) const { return d_o_ + p * chunk_.Q * kPanel; }

  void compute_d_updates(size_t c) {
    sweep_.prepare();
    const size_t dv_step = out_.dv_pitch == 0 ? in_.H * in_.V : out_.dv_pitch;
    for_panels(slice_.panel_begin, slice_.panel_end, [&](auto panels, size_t p) HWY_ATTR {
      sweep_.compute_d_updates<panels()>(p, d_state(chunk_.head(), c + 1) + p * in_.K * kPanel,
                                         d_o_panel(p), d_updates(c) + p * plan_.C * kPanel, out_.dv,
                                         dv_step);
    });
  }

  void compute_d_state(size_t c) {
    const float* after = d_state(chunk_.head(), c + 1);
    float* before = d_state(chunk_.head(), c);
    for_panels(slice_.panel_begin, slice_.panel_end, [&](auto panels, size_t p) HWY_ATTR {
      const size_t begin = p * in_.K * kPanel;
      sweep_.compute_d_state<panels()>(p, after + begin, d_o_panel(p), before + begin);
    });
  }

  void compute_gradients(size_t c) {
    gradients_.compute({saved_chunk_.state, d_state(chunk_.head(), c + 1), saved_chunk_.errors,
                        d_updates(c), d_o_});
  }

  const DeltaProductInputs& in_;
  const ChunkPlan& plan_;
  const Slice slice_;
  const float* const saved_;
  const DeltaProductGradients& out_;
  const SweepBuffers* const buffers_;
  Chunk chunk_;
  SavedChunk<const float> saved_chunk_;  // of the head that is loaded
  ChunkPrefetcher prefetcher_;
  const bool stream_dv_, stream_dk_, stream_dq_;
  ChunkSweep sweep_;
  ChunkGradients gradients_;
  float* d_o_;             // [panels][Q][kPanel]
  const Scratch scratch_;  // last: its layout sets what comes before
};

void chunk_backward_target(const DeltaProductInputs& inputs, const ChunkPlan& plan,
                           const Slice& slice, const BackwardWork& work, const float* saved,
                           const DeltaProductGradients& gradients, const SweepBuffers* buffers) {
  BackwardPass(inputs, plan, slice, saved, gradients, buffers).run(work);
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
HWY_EXPORT(chunk_backward_target);
void chunk_backward(const DeltaProductInputs& inputs, const ChunkPlan& plan, const Slice& slice,
                    const BackwardWork& work, const float* saved,
                    const DeltaProductGradients& gradients, const SweepBuffers* buffers) {
  HWY_DYNAMIC_DISPATCH(chunk_backward_target)(inputs, plan, slice, work, saved, gradients, buffers);
}
}  // namespace dp
#endif
