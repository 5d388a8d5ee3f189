#include "io/pickle.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/quote.h"
#include "io/byte_reader.h"

namespace dp {
namespace {

// Far above what torch.save writes: about 250 bytes per tensor, "0", "1", ... as keys. Without the
// last two, a long value that many tensors share would be copied for each of them.
constexpr size_t kLongest = 16 << 20;
constexpr size_t kLongestKey = 100;
constexpr size_t kMostDimensions = 64;

// What the machine computes with. Values refer to others by their number, never own them: no chain
// of them is too long to be freed, and sharing costs nothing.
using Ref = uint32_t;
struct None {};
enum class Function { kOrderedDict, kRebuildTensor, kRebuildParameter };
struct StorageType {
  DType dtype;
};
struct Tuple {
  std::vector<Ref> items;
};
struct Dict {
  std::vector<std::pair<Ref, Ref>> items;
};
struct Storage {
  DType dtype;
  std::string_view key;
  int64_t elements;
};
struct Tensor {
  size_t index;  // in tensors_
};
using Value = std::variant<None, bool, int64_t, std::string_view, Function, StorageType, Tuple,
                           Dict, Storage, Tensor>;
constexpr std::string_view kKinds[] = {"None",   "a bool",  "an int", "a string",  "a function",
                                       "a type", "a tuple", "a dict", "a storage", "a tensor"};
static_assert(std::size(kKinds) == std::variant_size_v<Value>);

struct Global {
  std::string_view module, name;
  Value value;
};
const std::array<Global, 13>& globals() {
  static const std::array<Global, 13> kGlobals = {{
      {"collections", "OrderedDict", Function::kOrderedDict},
      {"torch._utils", "_rebuild_tensor_v2", Function::kRebuildTensor},
      {"torch._utils", "_rebuild_parameter", Function::kRebuildParameter},
      {"torch", "FloatStorage", StorageType{DType::kF32}},
      {"torch", "DoubleStorage", StorageType{DType::kF64}},
      {"torch", "HalfStorage", StorageType{DType::kF16}},
      {"torch", "BFloat16Storage", StorageType{DType::kBF16}},
      {"torch", "LongStorage", StorageType{DType::kI64}},
      {"torch", "IntStorage", StorageType{DType::kI32}},
      {"torch", "ShortStorage", StorageType{DType::kI16}},
      {"torch", "CharStorage", StorageType{DType::kI8}},
      {"torch", "ByteStorage", StorageType{DType::kU8}},
      {"torch", "BoolStorage", StorageType{DType::kBool}},
  }};
  return kGlobals;
}

// Elements from the first to the last of a tensor, or nothing when that does not fit.
std::optional<int64_t> storage_extent(const std::vector<int64_t>& shape,
                                 const std::vector<int64_t>& strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  int64_t extent = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(extent, reach, &extent))
      return std::nullopt;
  }
  return extent;
}

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& file)
      : reader_(bytes, file + ": the pickle"), file_(file) {
    if (bytes.size() > kLongest)
      fail("takes " + std::to_string(bytes.size()) + " bytes, the limit is " +
           std::to_string(kLongest));
  }

  std::vector<PickledTensor> run() {
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty() || reader_.remaining() != 0)
      fail("does not end with its one value");
    const auto* dict = std::get_if<Dict>(&values_[stack_[0]]);
    if (!dict) fail("holds " + kind(stack_[0]) + ", not a dict of tensors");
    return list_tensors(*dict);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(file_ + ": the pickle " + problem);
  }

  std::string kind(Ref ref) const { return std::string(kKinds[values_[ref].index()]); }

  Ref add(Value value) {
    values_.push_back(std::move(value));
    return static_cast<Ref>(values_.size() - 1);
  }
  void push(Value value) { stack_.push_back(add(std::move(value))); }

  Ref pop() {
    if (stack_.size() <= bottom()) fail("takes a value from an empty stack");
    const Ref top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Ref top() const {
    if (stack_.size() <= bottom()) fail("uses a value of an empty stack");
    return stack_.back();
  }
  size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }

  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("lacks a mark");
    std::vector<Ref> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  template <class T>
  const T& get(Ref ref, const char* expected) const {
    if (const T* value = std::get_if<T>(&values_[ref])) return *value;
    fail("holds " + kind(ref) + " in place of " + expected);
  }

  // One instruction of protocol 2, the one that torch.save uses; false at the end.
  bool step() {
    const size_t position = reader_.position();
    const auto code = reader_.number<uint8_t>();
    switch (code) {
      case 0x80:  // PROTO
        if (const int protocol = reader_.number<uint8_t>(); protocol != 2)
          fail("is of protocol " + std::to_string(protocol) + "; torch.save writes protocol 2");
        return true;
      case '.':  // STOP
        return false;
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return true;
      case 'N':
        return push(None{}), true;
      case 0x88:
        return push(true), true;
      case 0x89:
        return push(false), true;
      case 'K':  // BININT1
        return push(int64_t{reader_.number<uint8_t>()}), true;
      case 'M':  // BININT2
        return push(int64_t{reader_.number<uint16_t>()}), true;
      case 'J':  // BININT
        return push(int64_t{reader_.number<int32_t>()}), true;
      case 0x8a:  // LONG1
        return push(long_integer()), true;
      case 'X':  // BINUNICODE
        return push(reader_.text(reader_.number<uint32_t>())), true;
      case ')':
        return push(Tuple{}), true;
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(code - 0x84u), true;
      case 't':
        return push(Tuple{pop_to_mark()}), true;
      case '}':
        return push(Dict{}), true;
      case 's':
      case 'u':
        return set_items(code == 'u'), true;
      case 'q':  // BINPUT
        return memo_[reader_.number<uint8_t>()] = top(), true;
      case 'r':  // LONG_BINPUT
        return memo_[reader_.number<uint32_t>()] = top(), true;
      case 'h':  // BINGET
        return recall(reader_.number<uint8_t>()), true;
      case 'j':  // LONG_BINGET
        return recall(reader_.number<uint32_t>()), true;
      case 'c':
        return push_global(), true;
      case 'Q':
        return push_storage(), true;
      case 'R':
        return call(), true;
      case 'b':
        return ignore_attributes(), true;
      default:
        fail("uses instruction " + std::to_string(code) + " at byte " + std::to_string(position) +
             ", which a dict of tensors does not need");
    }
  }

  int64_t long_integer() {
    const auto size = reader_.number<uint8_t>();
    const auto bytes = reader_.take(size);
    if (size > 8) fail("holds an integer of " + std::to_string(size) + " bytes");
    if (size == 0) return 0;
    uint64_t value = (bytes[size - 1] & std::byte{0x80}) != std::byte{0} ? ~uint64_t{0} : 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
    return static_cast<int64_t>(value);
  }

  void push_tuple(size_t size) {
    Tuple tuple{std::vector<Ref>(size)};
    for (size_t i = size; i-- > 0;) tuple.items[i] = pop();
    push(std::move(tuple));
  }

  void recall(uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) fail("recalls slot " + std::to_string(slot) + " before it is set");
    stack_.push_back(found->second);
  }

  void set_items(bool to_mark) {
    std::vector<Ref> items;
    if (to_mark) {
      items = pop_to_mark();
    } else {
      const Ref value = pop();
      items = {pop(), value};
    }
    if (items.size() % 2 != 0) fail("sets a name without a value");
    const Ref target = top();
    get<Dict>(target, "a dict");
    auto& into = std::get<Dict>(values_[target]).items;
    for (size_t i = 0; i < items.size(); i += 2) into.emplace_back(items[i], items[i + 1]);
  }

  void push_global() {
    const std::string_view module = reader_.line();
    const std::string_view name = reader_.line();
    for (const Global& global : globals())
      if (global.module == module && global.name == name) return push(global.value);
    fail("asks for " + quote(std::string(module) + "." + std::string(name)) +
         ", which a dict of tensors does not need; it was not called");
  }

  // ("storage", type, key, device, elements)
  void push_storage() {
    const auto& items = get<Tuple>(pop(), "a description of a storage").items;
    if (items.size() != 5)
      fail("describes a storage by " + std::to_string(items.size()) + " values");
    if (get<std::string_view>(items[0], "the word 'storage'") != "storage")
      fail("refers to something that is not a storage");
    const DType dtype = get<StorageType>(items[1], "the type of a storage").dtype;
    const std::string_view key = get<std::string_view>(items[2], "the name of a storage");
    if (key.size() > kLongestKey) fail("names a storage " + quote(key));
    const int64_t elements = get<int64_t>(items[4], "the size of a storage");
    if (elements < 0) fail("has a storage of " + std::to_string(elements) + " elements");
    push(Storage{dtype, key, elements});
  }

  void call() {
    const std::vector<Ref> arguments = get<Tuple>(pop(), "arguments").items;
    switch (get<Function>(pop(), "a function")) {
      case Function::kOrderedDict:
        if (!arguments.empty()) fail("calls OrderedDict with arguments");
        return push(Dict{});
      case Function::kRebuildParameter:  // (tensor, requires_grad, hooks)
        if (arguments.size() != 3) fail("makes a parameter of other than three values");
        get<Tensor>(arguments[0], "the tensor of a parameter");
        stack_.push_back(arguments[0]);
        return;
      case Function::kRebuildTensor:
        return rebuild_tensor(arguments);
    }
  }

  // (storage, begin, shape, strides, requires_grad, hooks), and in later versions metadata.
  // Whether it fits is checked once its name is known.
  void rebuild_tensor(const std::vector<Ref>& arguments) {
    if (arguments.size() != 6 && arguments.size() != 7)
      fail("makes a tensor of " + std::to_string(arguments.size()) + " values");
    const auto& storage = get<Storage>(arguments[0], "the storage of a tensor");
    PickledTensor tensor;
    tensor.dtype = storage.dtype;
    tensor.storage = storage.key;
    tensor.storage_elements = storage.elements;
    tensor.begin = get<int64_t>(arguments[1], "the position of a tensor");
    tensor.shape = integers(arguments[2]);
    tensor.strides = integers(arguments[3]);
    tensors_.push_back(std::move(tensor));
    push(Tensor{tensors_.size() - 1});
  }

  std::vector<int64_t> integers(Ref ref) const {
    std::vector<int64_t> numbers;
    const auto& items = get<Tuple>(ref, "the shape or strides of a tensor").items;
    if (items.size() > kMostDimensions)
      fail("makes a tensor of " + std::to_string(items.size()) + " dimensions");
    for (const Ref item : items) numbers.push_back(get<int64_t>(item, "a size or stride"));
    return numbers;
  }

  // Module.state_dict() carries the versions of its modules as an attribute.
  void ignore_attributes() {
    pop();
    get<Dict>(top(), "a dict that takes attributes");
  }

  std::vector<PickledTensor> list_tensors(const Dict& dict) const {
    std::vector<PickledTensor> tensors;
    std::set<std::string_view> names;
    for (const auto& [key, value] : dict.items) {
      const std::string_view name = get<std::string_view>(key, "the name of a tensor");
      if (!names.insert(name).second) fail("names " + quote(name) + " twice");
      const auto* tensor = std::get_if<Tensor>(&values_[value]);
      if (!tensor)
        fail("holds " + kind(value) + " under the name " + quote(name) + ", not a tensor");
      tensors.push_back(tensors_[tensor->index]);
      tensors.back().name = name;
      check(tensors.back());
    }
    return tensors;
  }

  void check(PickledTensor& tensor) const {
    const auto reject = [&](const std::string& problem) {
      throw InputError(file_ + ": tensor " + quote(tensor.name) + " " + problem);
    };
    const auto negative = [](int64_t number) { return number < 0; };
    if (tensor.shape.size() != tensor.strides.size())
      reject("has " + std::to_string(tensor.shape.size()) + " sizes and " +
             std::to_string(tensor.strides.size()) + " strides");
    if (std::ranges::any_of(tensor.shape, negative) ||
        std::ranges::any_of(tensor.strides, negative) || tensor.begin < 0)
      reject("has a negative size, stride or position");
    int64_t elements = 1;  // an empty tensor counts without its zeros: torch multiplies the rest
    for (const int64_t size : tensor.shape)
      if (__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements))
        reject("has an impossible shape");
    const std::optional<int64_t> extent = storage_extent(tensor.shape, tensor.strides);
    if (!extent || __builtin_add_overflow(tensor.begin, *extent, &tensor.end) ||
        tensor.end > tensor.storage_elements || (*extent > 0 && elements > tensor.storage_elements))
      reject("does not fit its storage " + quote(tensor.storage) + " of " +
             std::to_string(tensor.storage_elements) + " elements");
  }

  ByteReader reader_;
  const std::string& file_;
  std::vector<Value> values_;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;  // how high the stack was
  std::unordered_map<uint32_t, Ref> memo_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace

std::vector<PickledTensor> parse_tensor_pickle(std::span<const std::byte> bytes,
                                               const std::string& file) {
  return Machine(bytes, file).run();
}

}  // namespace dp
