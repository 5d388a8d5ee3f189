#include "ops/kernel_operator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <sys/mman.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/check_input.h"
#include "ops/packed_sequences.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using OptionalTensors = c10::List<Optional<at::Tensor>>;

std::map<std::string, const KernelOperator*>& operators() {
  static std::map<std::string, const KernelOperator*> all;
  return all;
}

const KernelOperator& find_operator(const std::string& name) {
  const auto found = operators().find(name);
  DP_CHECK_INPUT(found != operators().end(), "deltaproduct: no operator is called \"", name, "\".");
  return *found->second;
}

// Contiguous and float32, outside the graph of gradients.
at::Tensor to_float(const at::Tensor& x) {
  return x.detach().to(at::kFloat).contiguous().resolve_neg();
}

OptionalTensors to_list(const TensorVector& tensors) {
  OptionalTensors list;
  list.reserve(tensors.size());
  for (const at::Tensor& x : tensors)
    list.push_back(x.defined() ? Optional<at::Tensor>(x) : Optional<at::Tensor>());
  return list;
}

TensorVector to_vector(const OptionalTensors& list) {
  TensorVector tensors;
  tensors.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) tensors.push_back(value(list.get(i)));
  return tensors;
}

// The dispatcher's entries, for the CPU and for the meta device.

TensorVector kernel_forward(std::string name, const OptionalTensors& inputs,
                            at::ArrayRef<double> options, at::IntArrayRef wanted) {
  KernelInputs in(name.c_str(), to_vector(inputs), options.vec());
  KernelOutputs result = find_operator(name).forward(in, wanted.vec());
  result.outputs.insert(result.outputs.end(), result.saved.begin(), result.saved.end());
  return result.outputs;
}

TensorVector kernel_backward(std::string name, const OptionalTensors& inputs, at::TensorList saved,
                             at::ArrayRef<double> options, const OptionalTensors& d_outputs,
                             at::IntArrayRef wanted) {
  KernelInputs in(name.c_str(), to_vector(inputs), options.vec());
  KernelGradients gradients(in, saved.vec(), to_vector(d_outputs), wanted.vec());
  find_operator(name).backward(in, gradients);
  return gradients.results();
}

TensorVector call_forward(const std::string& name, const OptionalTensors& inputs,
                          at::ArrayRef<double> options, at::IntArrayRef wanted) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("deltaproduct::_kernel_forward", "")
                             .typed<decltype(kernel_forward)>();
  return op.call(name, inputs, options, wanted);
}

TensorVector call_backward(const std::string& name, const OptionalTensors& inputs,
                           at::TensorList saved, at::ArrayRef<double> options,
                           const OptionalTensors& d_outputs, at::IntArrayRef wanted) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("deltaproduct::_kernel_backward", "")
                             .typed<decltype(kernel_backward)>();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(name, inputs, saved, options, d_outputs, wanted);
}

// Gradients made by kernels, which torch cannot differentiate again. Under create_graph they record that they depend on the
// sources, and differentiating them throws: torch's C++ interface has no once_differentiable of its own.
struct OnceDifferentiable : torch::autograd::Function<OnceDifferentiable> {
  static TensorVector forward(AutogradContext* ctx, at::TensorList /*sources*/,
                              const KernelOperator* op,
                              const std::function<TensorVector()>& compute) {
    ctx->saved_data["error"] = op->second_derivative_error();
    return compute();
  }
  static TensorVector backward(AutogradContext* ctx, const TensorVector&) {
    TORCH_CHECK(false, ctx->saved_data["error"].toStringRef());
  }
};

// Whether x is an ordinary CPU tensor that no tracer watches: only then is there a value to look at.
bool is_plain(const at::Tensor& x) {
  const c10::DispatchKey key = x.key_set().highestPriorityTypeId();
  return (key == c10::DispatchKey::CPU || key == c10::DispatchKey::AutogradCPU ||
          key == c10::DispatchKey::ADInplaceOrView) &&
         !c10::impl::tls_local_dispatch_key_set().included_.has(c10::DispatchKey::Python);
}

struct KernelFunction : torch::autograd::Function<KernelFunction> {
  // `defined`: the inputs that were given, as torch wants to see them.
  static TensorVector forward(AutogradContext* ctx, at::TensorList /*defined*/,
                              const KernelOperator* op, const OptionalTensors& inputs,
                              at::ArrayRef<double> options) {
    TensorVector keep = to_vector(inputs);
    std::vector<int64_t> wanted;
    for (const at::Tensor& x : keep) wanted.push_back(x.defined() && x.requires_grad());
    const TensorVector results = [&] {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      return call_forward(op->name(), inputs, options, wanted);
    }();
    const auto end = results.begin() + static_cast<std::ptrdiff_t>(op->num_outputs());
    const TensorVector outputs(results.begin(), end), saved(end, results.end());

    ctx->saved_data["name"] = op->name();
    ctx->saved_data["options"] = options.vec();
    ctx->saved_data["wanted"] = wanted;
    std::vector<int64_t> given;
    for (const at::Tensor& x : keep) given.push_back(x.defined());
    ctx->saved_data["given"] = given;
    // The inputs as they came: torch then notices changes in place, and a bfloat16 or strided tensor is kept once.
    for (size_t i = 0; i < keep.size(); ++i)
      if (!op->keeps_input(i)) keep[i] = at::Tensor();
    if (op->saves_gradients()) {
      ctx->saved_data["gradients"] = saved;
    } else {
      keep.insert(keep.end(), saved.begin(), saved.end());
    }
    if (op->keeps_output()) keep.push_back(outputs[0]);
    ctx->save_for_backward(std::move(keep));
    ctx->set_materialize_grads(false);
    TensorVector integral;
    for (const at::Tensor& x : outputs)
      if (!x.is_floating_point()) integral.push_back(x);
    ctx->mark_non_differentiable(integral);
    return outputs;
  }

  static TensorVector backward(AutogradContext* ctx, const TensorVector& d_outputs) {
    const KernelOperator& op = find_operator(ctx->saved_data["name"].toStringRef());
    const std::vector<int64_t> given = ctx->saved_data["given"].toIntVector(),
                               wanted = ctx->saved_data["wanted"].toIntVector();
    const TensorVector kept = ctx->get_saved_variables();
    const auto end = kept.begin() + static_cast<std::ptrdiff_t>(given.size());
    const OptionalTensors inputs = to_list({kept.begin(), end});
    const TensorVector saved(end, kept.end());
    TensorVector sources;
    for (const TensorVector* tensors : {&kept, &d_outputs})
      for (const at::Tensor& x : *tensors)
        if (x.defined()) sources.push_back(x);
    const std::vector<double> options = ctx->saved_data["options"].toDoubleVector();
    const TensorVector gradients = OnceDifferentiable::apply(
        at::TensorList(sources), &op, std::function([&] {
          if (op.saves_gradients())
            return take_gradients(ctx, op, inputs, options, wanted, d_outputs[0]);
          return call_backward(op.name(), inputs, saved, options, to_list(d_outputs), wanted);
        }));
    TensorVector out;
    size_t next = 0;
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i]) out.push_back(wanted[i] ? gradients[next++] : at::Tensor());
    out.resize(out.size() + 3);  // of the other arguments of forward()
    return out;
  }

 private:
  static TensorVector take_gradients(AutogradContext* ctx, const KernelOperator& op,
                                     const OptionalTensors& inputs,
                                     const std::vector<double>& options,
                                     const std::vector<int64_t>& wanted, const at::Tensor& d_loss) {
    TensorVector gradients;
    const auto first_time = ctx->saved_data.find("gradients");
    if (first_time != ctx->saved_data.end()) {
      gradients = first_time->second.toTensorVector();
      ctx->saved_data.erase(first_time);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      gradients = call_forward(op.name(), inputs, options, wanted);
      gradients.erase(gradients.begin(),
                      gradients.begin() + static_cast<std::ptrdiff_t>(op.num_outputs()));
    }
    const bool is_one = is_plain(d_loss) && d_loss.item<double>() == 1;
    for (size_t i = 0, next = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      at::Tensor& gradient = gradients[next++];
      if (!is_one) gradient.mul_(d_loss);
      gradient = gradient.to(inputs.get(i)->scalar_type());
    }
    return gradients;
  }
};

TensorVector kernel_forward_autograd(std::string name, const OptionalTensors& inputs,
                                     at::ArrayRef<double> options, at::IntArrayRef wanted) {
  TensorVector defined;
  bool gradient = false;
  for (const at::Tensor& x : to_vector(inputs)) {
    if (!x.defined()) continue;
    gradient |= x.requires_grad();
    defined.push_back(x);
  }
  if (!gradient || !at::GradMode::is_enabled()) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call_forward(name, inputs, options, wanted);  // a traced graph asks for what it saves
  }
  return KernelFunction::apply(at::TensorList(defined), &find_operator(name), inputs, options);
}

}  // namespace

namespace {

// Torch gives large tensors back to the system when they are freed, so each new one costs a page fault per 4 KiB: ten times
// as long as copying it takes. Linux maps 2 MiB at once where it is told to.
void ask_for_huge_pages([[maybe_unused]] const at::Tensor& x) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = 4096, kEnough = uintptr_t{4} << 20;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(x.data_ptr()), size = x.nbytes();
  if (size < kEnough) return;
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage, end = (begin + size) / kPage * kPage;
  madvise(reinterpret_cast<void*>(first), end - first,
          MADV_HUGEPAGE);  // a wish: failure changes nothing
#endif
}

}  // namespace

KernelInputs::KernelInputs(const char* op, TensorVector tensors, std::vector<double> options)
    : op_(op),
      tensors_(std::move(tensors)),
      floats_(tensors_.size()),
      options_(std::move(options)) {
  for (const at::Tensor& x : tensors_) is_meta_ |= x.defined() && x.is_meta();
}

const float* KernelInputs::data(size_t i) {
  if (is_meta_ || !has(i)) return nullptr;
  if (!floats_[i].defined()) floats_[i] = to_float(tensors_[i]);
  return floats_[i].data_ptr<float>();
}

namespace {

// The distance between rows over the last `row_dims` dimensions of x, or 0 where that is not one number, or rows are not
// contiguous.
int64_t row_pitch(const at::Tensor& x, int64_t row_dims) {
  int64_t row = 1, pitch = 0, count = 1;
  for (int64_t d = x.dim() - 1; d >= 0; --d) {
    const int64_t size = x.size(d), stride = x.stride(d);
    if (size == 1) continue;
    if (d >= x.dim() - row_dims) {
      if (stride != row) return 0;
      row *= size;
    } else {
      if (pitch == 0) pitch = stride;
      if (stride != pitch * count || pitch < row) return 0;
      count *= size;
    }
  }
  return pitch == 0 ? row : pitch;
}

}  // namespace

const float* KernelInputs::rows(size_t i, int64_t row_dims, size_t& pitch) {
  const at::Tensor& x = tensors_[i];
  pitch = 0;
  if (is_meta_) return nullptr;
  if (!floats_[i].defined() && x.scalar_type() == at::kFloat && !x.is_neg() && x.numel() > 0) {
    pitch = static_cast<size_t>(row_pitch(x, row_dims));
    if (pitch > 0) return x.data_ptr<float>();
  }
  return data(i);
}

Sequences KernelInputs::sequences(const at::Tensor& x, size_t cu_seqlens) {
  if (is_meta_ && has(cu_seqlens)) {
    offsets_.assign(static_cast<size_t>(size(cu_seqlens, 0)), 0);
    offsets_.back() = x.size(1);
  } else {
    offsets_ = sequence_offsets(op_, x, tensors_[cu_seqlens]);
  }
  return {offsets_.size() - 1, offsets_.data()};
}

at::Tensor KernelInputs::empty(at::IntArrayRef sizes) const {
  for (const at::Tensor& x : tensors_)
    if (x.defined() && x.is_floating_point()) {
      const at::Tensor out =
          at::empty(sizes, x.options().dtype(compute_type(x)).requires_grad(false));
      if (!is_meta_) ask_for_huge_pages(out);
      return out;
    }
  TORCH_INTERNAL_ASSERT(false, op_, " has no floating-point input");
}

KernelGradients::KernelGradients(const KernelInputs& inputs, TensorVector saved,
                                 TensorVector d_outputs, std::vector<int64_t> wanted)
    : inputs_(inputs),
      saved_(std::move(saved)),
      d_outputs_(std::move(d_outputs)),
      gradients_(wanted.size()),
      types_(wanted.size()),
      wanted_(std::move(wanted)) {}

const float* KernelGradients::d_output(size_t i) {
  if (!d_outputs_[i].defined() || inputs_.is_meta()) return nullptr;
  d_outputs_[i] = to_float(d_outputs_[i]);
  return data(d_outputs_[i]);
}

const float* KernelGradients::d_output(size_t i, at::IntArrayRef sizes) {
  if (!d_outputs_[i].defined()) d_outputs_[i] = inputs_.empty(sizes).zero_();
  return d_output(i);
}

float* KernelGradients::gradient(size_t i) {
  return inputs_.has(i) ? gradient(i, inputs_[i].sizes(), inputs_[i].scalar_type()) : nullptr;
}

float* KernelGradients::gradient(size_t i, at::IntArrayRef sizes, at::ScalarType type) {
  types_[i] = type;
  gradients_[i] = inputs_.empty(sizes);
  return data(gradients_[i]);
}

void KernelGradients::set_gradient(size_t i, const at::Tensor& gradient) {
  types_[i] = inputs_[i].scalar_type();
  gradients_[i] = gradient;
}

TensorVector KernelGradients::results() const {
  TensorVector out;
  for (size_t i = 0; i < wanted_.size(); ++i)
    if (wanted_[i]) out.push_back(gradients_[i].to(types_[i]));
  return out;
}

KernelOperator::KernelOperator(std::string name, size_t num_outputs)
    : name_(std::move(name)), num_outputs_(num_outputs) {
  operators()[name_] = this;
}

TensorVector KernelOperator::run(const TensorVector& inputs,
                                 const std::vector<double>& options) const {
  const bool recorded = at::GradMode::is_enabled();
  const bool direct = std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor& x) {
    return !x.defined() || (is_plain(x) && !(recorded && x.requires_grad()));
  });
  if (direct) {  // without the dispatcher, which takes as long as a small kernel
    KernelInputs in(name_.c_str(), inputs, options);
    return forward(in, {}).outputs;
  }
  return call_forward(name_, to_list(inputs), options, {});
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def("_kernel_forward(str name, Tensor?[] inputs, float[] options, int[] wanted) -> Tensor[]");
  m.def(
      "_kernel_backward(str name, Tensor?[] inputs, Tensor[] saved, float[] options, "
      "Tensor?[] d_outputs, int[] wanted) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(deltaproduct, CPU, m) {
  m.impl("_kernel_forward", TORCH_FN(kernel_forward));
  m.impl("_kernel_backward", TORCH_FN(kernel_backward));
}

TORCH_LIBRARY_IMPL(deltaproduct, Meta, m) {
  m.impl("_kernel_forward", TORCH_FN(kernel_forward));
  m.impl("_kernel_backward", TORCH_FN(kernel_backward));
}

TORCH_LIBRARY_IMPL(deltaproduct, Autograd, m) {
  m.impl("_kernel_forward", TORCH_FN(kernel_forward_autograd));
}

}  // namespace dp
