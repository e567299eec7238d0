// archive/function.cpp: a method of an archive as something that can be called.
#include "archive/function.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "archive/method_graph.h"
#include "base/error.h"
#include "runtime/planning.h"
#include "runtime/stored_plan.h"
#include "runtime/transpose.h"

namespace hologram::archive {
namespace {

constexpr int64_t most_addressed = int64_t{1} << 48;

// Numbers, or nothing where one of them is chosen by calls.
std::optional<std::vector<int64_t>> constants_of(const Shape& dims) {
  std::vector<int64_t> out;
  for (const Expr& e : dims) {
    if (!e.is_const()) return std::nullopt;
    out.push_back(e.constant_value());
  }
  return out;
}

/// Whether a parameter lies in a tensor: of its dtype, perhaps by another shape.
bool within(ir::Value parameter, const Tensor& t) {
  const auto shape = constants_of(parameter->shape), strides = constants_of(parameter->attrs.exprs);
  return parameter->dtype == t.dtype && shape && strides &&
         span_of(*shape, *strides) <= t.bytes / static_cast<uint64_t>(size_of(t.dtype));
}

// A name for a tensor's bytes.
Fingerprint content_of(const Tensor& t) {
  std::string text = fmt::format("{}", t.bytes);
  for (const Fingerprint& f : t.pieces) text += " " + f.hex();
  return fingerprint(text);
}

std::string text_of(const std::vector<int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

}  // namespace

// What the method's parameters are bound to, for calls from one replacement of weights to the next.
struct Function::Bound {
  uint64_t version = 0;
  std::vector<const void*> addresses;                    // by parameter: a tensor's, or null
  std::vector<std::shared_ptr<const std::byte[]>> keep;  // of those that were replaced
  std::vector<std::shared_ptr<void>> on_device;          // by parameter: its copy there
  std::optional<runtime::PackedFiles> packed;
  std::vector<runtime::PackedFiles> packed_of_loops;
  Kept kept;  // by mutex_
};

Function::Function(std::shared_ptr<const Weights> weights, const Method& method,
                   std::shared_ptr<runtime::Runtime> runtime, bool trusted, bool host)
    : weights_(std::move(weights)),
      method_(method),
      runtime_(runtime),
      loops_(weights_->archive(), method),
      host_(host) {
  try {
    for (const Source& source : method_.parameters)
      has_state_ |=
          source.kind == Source::Kind::tensor && archive().index().tensors[source.number].state;
    bind_symbols();
    const std::optional<Code> code = find_code(runtime->backend());
    precompiled_ = trusted && code;
    if (precompiled_)
      load(*code, std::move(runtime));
    else if (runtime::can_compile())
      compile(std::move(runtime));
    else
      refuse(code.has_value(), runtime->backend());
    loops_.follow(executable_->plan(), [&](int p) { return keeps(p); });
    bind();
  } catch (const Error& e) {
    fail(e.code() == ErrorCode::invalid_argument ? ErrorCode::corrupt : e.code(),
         "{}: method \"{}\": {}", archive().name(), method_.name, e.what());
  }
}

void Function::compile(std::shared_ptr<runtime::Runtime> runtime) {
  if (host_ && runtime->device())
    fail(ErrorCode::unsupported, "backend {} runs none of the operators that PyTorch has to run",
         runtime->backend().name());
  const auto graph = parsed(archive().checked_section(method_.graph));
  check_parameters(*graph);
  bind_results(*graph);
  check_sizes_of(*graph);
  loops_.compile(*graph, runtime);
  executable_ = runtime::Executable::compile(*graph, options_of(archive().index(), method_),
                                             std::move(runtime));
}

// What is right for every size cannot always be told from the graph, and nobody vouches for it.
void Function::check_sizes_of(const ir::Graph& graph) {
  sizes_ = std::make_unique<const ir::SizeCheck>(graph, fmt::format("\"{}\"", method_.name));
}

// Code that was compiled for this very target: its bits are those that compiling here would give.
std::optional<Function::Code> Function::find_code(const Backend& backend) const {
  const Index& index = archive().index();
  const std::string target = backend.target();
  const auto find = [&](const std::vector<Precompiled>& list, size_t number) {
    const auto p = std::ranges::find_if(list, [&](const Precompiled& x) {
      return x.method == number && x.target == target && x.abi == runtime::stored_abi;
    });
    return target.empty() || p == list.end() ? nullptr : &*p;
  };
  Code code;
  code.method = find(index.precompiled, static_cast<size_t>(&method_ - index.methods.data()));
  for (const uint32_t n : loops_.numbers()) code.loops.push_back(find(index.precompiled_loops, n));
  if (!code.method || std::ranges::find(code.loops, nullptr) != code.loops.end())
    return std::nullopt;
  return code;
}

void Function::refuse(bool has_code, const Backend& backend) const {
  if (has_code)
    fail(ErrorCode::unsupported,
         "this library runs machine code alone, and the archive is not trusted: name the "
         "fingerprint that is expected");
  std::set<std::string> targets;
  const Index& index = archive().index();
  for (const Precompiled& p : index.precompiled)
    if (&index.methods[p.method] == &method_)
      targets.insert(p.abi == runtime::stored_abi ? p.target : p.target + " (another version)");
  fail(ErrorCode::unsupported,
       "this library runs machine code alone, and the archive has none for this machine, \"{}\"; "
       "it has code for: {}",
       backend.target(),
       targets.empty() ? "none" : fmt::format("\"{}\"", fmt::join(targets, "\", \"")));
}

void Function::load(const Code& code, std::shared_ptr<runtime::Runtime> runtime) {
  loops_.load(code.loops, runtime);
  executable_ = runtime::load_stored(
      {archive().checked_section(code.method->plan), archive().checked_section(code.method->code)},
      std::move(runtime));
  const schedule::Plan& plan = executable_->plan();
  int count = 0;
  for (const schedule::PlanOutput& o : plan.outputs)
    result_of_output_.push_back(o.mutation ? -1 : count++);
  if (static_cast<size_t>(count) != method_.results.size() ||
      static_cast<size_t>(plan.num_parameters) > method_.parameters.size() ||
      static_cast<size_t>(plan.num_symbols) > method_.symbols.size())
    fail(ErrorCode::corrupt, "its code is another method's");
  if (!method_.symbols.empty()) check_sizes_of(*parsed(archive().checked_section(method_.graph)));
}

// Names weights by the hashes in the index, which nobody has compared yet: what is on the disk
// under such a name was made of content that had been. Values computed from weights that stayed
// stay.
std::shared_ptr<Function::Bound> Function::bind() {
  std::lock_guard lock(mutex_);
  const uint64_t version = weights_->version();
  if (bound_ && bound_->version == version) return bound_;
  auto made = std::make_shared<Bound>();
  made->version = version;
  std::vector<std::optional<Fingerprint>> contents;
  for (const Source& source : method_.parameters) {
    contents.emplace_back();
    made->addresses.push_back(nullptr);
    made->on_device.emplace_back();
    if (source.kind != Source::Kind::tensor) continue;
    const Tensor& t = archive().index().tensors[source.number];
    if (t.state) continue;
    Weights::Content content = weights_->content(source.number);
    made->addresses.back() = content.data;
    if (executable_->runtime().device())
      made->on_device.back() = weights_->on_device(source.number, content, runtime_);
    if (content.replaced)
      made->keep.push_back(std::move(content.replaced));
    else
      contents.back() = content_of(t);
  }
  bind_packed(*made, contents);
  bound_ = std::move(made);
  return bound_;
}

bool Function::keeps(int parameter) const {
  const Source& s = method_.parameters[static_cast<size_t>(parameter)];
  return s.kind == Source::Kind::tensor && !archive().index().tensors[s.number].state;
}

// Takes what was computed from weights that are as they were, and what is on the disk.
void Function::bind_packed(Bound& made, const std::vector<std::optional<Fingerprint>>& contents) {
  const auto same = [&](int p) {
    const auto k = static_cast<size_t>(p);
    return bound_->addresses[k] == made.addresses[k];
  };
  made.packed.emplace(*executable_, contents, weights_->packed());
  const std::vector<schedule::CacheEntry>& cache = executable_->plan().cache;
  made.kept.method.resize(cache.size());
  if (bound_)
    for (size_t c = 0; c < cache.size(); ++c)
      if (std::ranges::all_of(cache[c].parameters, same))
        made.kept.method.set(c, bound_->kept.method[c]);
  made.packed->take(made.kept.method);
  executable_->keep(made.kept.method);
  for (size_t n = 0; n < loops_.size(); ++n) {
    std::vector<std::optional<Fingerprint>> fixed;
    for (const int p : loops_.parameters(n))
      fixed.push_back(p < 0 ? std::nullopt : contents[static_cast<size_t>(p)]);
    made.packed_of_loops.emplace_back(loops_.step(n), fixed, weights_->packed());
    runtime::Kept& kept = made.kept.loops.emplace_back();
    if (!loops_.keeps(n)) continue;
    if (bound_ && std::ranges::all_of(loops_.sources(n), same)) kept = bound_->kept.loops[n];
    made.packed_of_loops.back().take(kept);
    loops_.step(n).keep(kept);
  }
}

// Only of tensors that are what the index says: other archives rely on the names.
void Function::share_packed_weights(const Bound& bound, Kept& kept) const {
  std::vector<std::optional<bool>> agrees(archive().index().tensors.size());
  const auto share = [&](const runtime::PackedFiles& files, const runtime::Executable& executable,
                         runtime::Kept& values, const auto& parameter) {
    std::vector<size_t> which = files.unshared(values);
    std::erase_if(which, [&](size_t c) {
      return !std::ranges::all_of(executable.plan().cache[c].parameters, [&](int p) {
        const uint32_t number = method_.parameters[static_cast<size_t>(parameter(p))].number;
        if (!agrees[number]) agrees[number] = archive().agrees(archive().index().tensors[number]);
        return *agrees[number];
      });
    });
    files.share(values, which);
  };
  share(*bound.packed, *executable_, kept.method, [](int p) { return p; });
  for (size_t n = 0; n < loops_.size(); ++n)
    if (loops_.keeps(n))
      share(bound.packed_of_loops[n], loops_.step(n), kept.loops[n],
            [&](int p) { return loops_.parameters(n)[static_cast<size_t>(p)]; });
}

// What another method computed since this one was bound.
void Function::take_packed_weights(const Bound& bound, Kept& kept) const {
  bound.packed->take(kept.method);
  for (size_t n = 0; n < loops_.size(); ++n)
    if (loops_.keeps(n)) bound.packed_of_loops[n].take(kept.loops[n]);
}

bool Function::is_complete(const Kept& kept) const {
  const auto whole = [](const runtime::Kept& values) {
    return std::ranges::all_of(values, [](const auto& k) { return k != nullptr; });
  };
  for (size_t n = 0; n < loops_.size(); ++n)
    if (!whole(kept.loops[n])) return false;
  return whole(kept.method);
}

size_t Function::cached_bytes() const {
  size_t bytes = executable_->cached_bytes();
  for (size_t n = 0; n < loops_.size(); ++n) bytes += loops_.step(n).cached_bytes();
  return bytes;
}

void Function::check_parameters(const ir::Graph& graph) {
  require(static_cast<size_t>(graph.num_parameters) <= method_.parameters.size(),
          "its graph has {} parameters, the index names {}", graph.num_parameters,
          method_.parameters.size());
  require(static_cast<size_t>(graph.num_symbols) <= method_.symbols.size(),
          "its graph has {} sizes, the index names {}", graph.num_symbols, method_.symbols.size());
  for (ir::Value v : ir::live_nodes(graph)) {
    const ir::OpKind kind = ir::info(v->op).kind;
    const bool external = kind == ir::OpKind::external || kind == ir::OpKind::external_result;
    const ir::Value call = v->is(ir::Op::host_result) ? v->input() : v;
    const bool loop = external && loops_.contains(call->attrs.ints[0]);
    if ((external && !host_ && !loop) || (v->dtype == DType::host && kind != ir::OpKind::external))
      fail(ErrorCode::unsupported, "operation {} needs PyTorch",
           v->attrs.text.empty() ? ir::name_of(v->op) : std::string_view(v->attrs.text));
    if (!v->is(ir::Op::parameter)) continue;
    const auto p = static_cast<size_t>(v->attrs.ints[0]);
    const Source& s = method_.parameters[p];
    if (s.kind == Source::Kind::input) {
      const Signature& input = method_.inputs[s.number];
      require(v->dtype == input.dtype && v->shape == input.shape &&
                  row_major(v->attrs.exprs, input.shape),
              "parameter {} of its graph is another array than its input", p);
      continue;
    }
    const Tensor& t = archive().index().tensors[s.number];
    require(within(v, t), "parameter {} of its graph is another array than tensor \"{}\"", p,
            t.name);
  }
}

void Function::bind_results(const ir::Graph& graph) {
  size_t count = 0;
  for (const ir::Output& o : graph.outputs) {
    if (o.parameter >= 0) {
      const Source& s = method_.parameters[static_cast<size_t>(o.parameter)];
      require(s.kind == Source::Kind::tensor && archive().index().tensors[s.number].state,
              "its graph writes parameter {}, which is no state", o.parameter);
      result_of_output_.push_back(-1);
      continue;
    }
    require(count < method_.results.size(), "its graph has more results than the index names");
    const Signature& r = method_.results[count];
    require(o.value->dtype == r.dtype && o.value->shape == r.shape && row_major(o.strides, r.shape),
            "result {} of its graph is another array than the index says", count);
    result_of_output_.push_back(static_cast<int>(count++));
  }
  require(count == method_.results.size(), "its graph has {} results, the index names {}", count,
          method_.results.size());
}

// Plain sizes first: s0 itself says more than 2*s0.
void Function::bind_symbols() {
  rules_.resize(method_.symbols.size(), {SIZE_MAX, 0, 0, 0});
  for (bool plain : {true, false})
    for (size_t i = 0; i < method_.inputs.size(); ++i)
      for (size_t d = 0; d < method_.inputs[i].shape.size(); ++d) {
        const Expr& e = method_.inputs[i].shape[d];
        if (e.is_const() || e.terms().size() != 1) continue;
        const Term& term = e.terms()[0];
        if (term.atoms.size() != 1 || term.atoms[0]->kind != Atom::Kind::symbol) continue;
        // Numbers that cannot overflow, whatever the file says.
        if (term.coefficient < 1 || e.constant() < -most_addressed || e.constant() > most_addressed)
          continue;
        if (plain != (term.coefficient == 1 && e.constant() == 0)) continue;
        SizeRule& rule = rules_[static_cast<size_t>(term.atoms[0]->id)];
        if (rule.input == SIZE_MAX) rule = {i, d, term.coefficient, e.constant()};
      }
  for (size_t s = 0; s < rules_.size(); ++s)
    require(rules_[s].input != SIZE_MAX, "no input says what size \"{}\" is",
            method_.symbols[s].name);
}

// What the host made lies where the host put it, with strides of its own.
void Function::copy_host_results(const runtime::Frame& frame, const Loops::Calls& loops,
                                 std::span<void* const> results) const {
  const schedule::Plan& plan = executable_->plan();
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    const auto number = static_cast<size_t>(plan.outputs[o].slot);
    const schedule::Slot& slot = plan.slots[number];
    if (result_of_output_[o] < 0 || slot.kind != schedule::SlotKind::host) continue;
    const void* made = loops.made(plan.outputs[o].slot);
    std::vector<int64_t> shape{1}, strides{0};
    for (const Expr& e : slot.shape) shape.push_back(e.eval(frame.symbols));
    for (const Expr& e : slot.strides) strides.push_back(e.eval(frame.symbols));
    if (std::ranges::find(shape, 0) == shape.end())
      runtime::copy_strided(shape, strides, size_of(slot.dtype), made ? made : frame.slots[number],
                            results[static_cast<size_t>(result_of_output_[o])]);
  }
}

std::vector<int64_t> Function::symbols_of(std::span<const std::vector<int64_t>> shapes) const {
  require(shapes.size() == method_.inputs.size(), "\"{}\" takes {} arrays, got {}", method_.name,
          method_.inputs.size(), shapes.size());
  std::vector<int64_t> symbols(rules_.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    require(shapes[i].size() == method_.inputs[i].shape.size(),
            "input \"{}\" has the shape {}, expected {}", method_.inputs[i].name,
            text_of(shapes[i]), named(method_.inputs[i].shape, method_));
  for (size_t s = 0; s < rules_.size(); ++s) {
    const SizeRule& rule = rules_[s];
    const Symbol& symbol = method_.symbols[s];
    symbols[s] = (shapes[rule.input][rule.dimension] - rule.offset) / rule.factor;
    require(symbols[s] >= symbol.least && symbols[s] <= symbol.most,
            "input \"{}\": size {} is {} in the shape {}, expected {} to {}",
            method_.inputs[rule.input].name, symbol.name, symbols[s], text_of(shapes[rule.input]),
            symbol.least, symbol.most);
  }
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t d = 0; d < shapes[i].size(); ++d)
      require(shapes[i][d] == method_.inputs[i].shape[d].eval(symbols),
              "input \"{}\" has the shape {}, expected {}", method_.inputs[i].name,
              text_of(shapes[i]), named(method_.inputs[i].shape, method_));
  for (const Expr& g : method_.guards)
    require(g.eval(symbols) >= 0, "\"{}\" is not for these sizes: {} must not be negative",
            method_.name, named(g, method_));
  if (sizes_) sizes_->check(symbols);
  loops_.check_sizes(symbols);
  return symbols;
}

std::vector<int64_t> Function::shape_of(const Signature& result,
                                        std::span<const int64_t> symbols) const {
  std::vector<int64_t> shape;
  __int128 n = 1;
  for (const Expr& e : result.shape) {
    shape.push_back(e.eval(symbols));
    n *= std::max<int64_t>(shape.back(), 1);
    require(shape.back() >= 0 && n <= most_addressed, "result \"{}\" would have the shape {}",
            result.name, text_of(shape));
  }
  return shape;
}

int32_t Function::run(std::span<const void* const> inputs, std::span<const int64_t> symbols,
                      std::span<void* const> results, Session* session, runtime::Host* host,
                      const Stream* queue, std::atomic<int32_t>* late) {
  require(inputs.size() == method_.inputs.size() && results.size() == method_.results.size() &&
              symbols.size() == method_.symbols.size(),
          "\"{}\": numbers of inputs, results or sizes", method_.name);
  require(!has_state_ || session, "\"{}\" keeps state between calls: call it on a session",
          method_.name);
  require(!session || &session->archive() == &archive(), "\"{}\": the session is another archive's",
          method_.name);
  const std::shared_ptr<Bound> bound = bind();
  std::unique_lock<std::mutex> lock;
  if (has_state_) {
    lock = std::unique_lock(session->mutex_);
    session->move_to(runtime_, queue);
  }
  std::vector<void*> parameters(bound->addresses.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Source& s = method_.parameters[p];
    const void* address = bound->on_device[p] ? bound->on_device[p].get() : bound->addresses[p];
    if (s.kind == Source::Kind::input)
      address = inputs[s.number];
    else if (!address)
      address = session->data(s.number);
    parameters[p] = const_cast<void*>(address);
  }
  class Given : public runtime::Outputs {
   public:
    Given(std::span<void* const> places, const std::vector<int>& numbers)
        : places_(places), numbers_(numbers) {}
    void* allocate(int index, size_t, runtime::Frame&) override {
      return places_[static_cast<size_t>(numbers_[static_cast<size_t>(index)])];
    }

   private:
    std::span<void* const> places_;
    const std::vector<int>& numbers_;
  };
  Given outputs(results, result_of_output_);
  Kept kept;
  {
    std::lock_guard own(mutex_);
    kept = bound->kept;
  }
  const bool complete = is_complete(kept);
  if (!complete) take_packed_weights(*bound, kept);
  Loops::Calls loops(loops_, *executable_, symbols, kept.loops, host);
  runtime::Host* calls = loops_.empty() ? host : &loops;
  auto frame = executable_->lease();
  auto [status, faults] =
      executable_->run({parameters.data(), symbols.data(), &kept.method, nullptr, queue, late},
                       outputs, calls, *frame);
  if (has_state_ && queue) session->used_on(*queue);
  faults |= loops.faults();
  if (calls && status == 0) copy_host_results(*frame, loops, results);
  executable_->give_back(std::move(frame));
  runtime::raise_status(status);
  if (!complete) {
    if (faults == 0) {
      share_packed_weights(*bound, kept);
      bound->packed->unite(kept.method);
      for (size_t n = 0; n < loops_.size(); ++n)
        if (loops_.keeps(n)) bound->packed_of_loops[n].unite(kept.loops[n]);
    }
    std::lock_guard own(mutex_);
    bound->kept = kept;
    if (bound == bound_) {
      for (size_t n = 0; n < loops_.size(); ++n) loops_.step(n).keep(std::move(kept.loops[n]));
      executable_->keep(std::move(kept.method));
    }
  }
  return faults;
}

}  // namespace hologram::archive
