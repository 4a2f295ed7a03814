// Runs a plan without machine code: kernels through the interpreter, buffers on the heap. For tests of the schedule.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "dag_reference.h"
#include "graph/graph.h"
#include "kernel_reference.h"
#include "schedule/fusion.h"
#include "schedule/plan.h"
#include "vesta/error.h"

namespace vesta::testing {

struct Host {
  graph::TensorType type;
  std::vector<char> bytes;  // the storage, as far as the strides reach

  float* f32() { return reinterpret_cast<float*>(bytes.data()); }
  int64_t* i64() { return reinterpret_cast<int64_t*>(bytes.data()); }
};

inline int64_t storage_elements(const graph::TensorType& t, const std::function<int64_t(Expr)>& value) {
  int64_t last = 1;
  for (size_t d = 0; d < t.dim(); ++d) {
    int64_t n = evaluate(t.sizes[d], value);
    if (n == 0) return 0;
    last += (n - 1) * evaluate(t.strides[d], value);
  }
  return last;
}

inline int64_t by_hint(Expr s) { return hint(s); }

// Small values without ties; integers below `limit`.
inline Host random_host(const graph::TensorType& t, uint32_t seed, int64_t limit = 5,
                        const std::function<int64_t(Expr)>& value = by_hint) {
  Host h{t, {}};
  int64_t n = storage_elements(t, value);
  h.bytes.resize(static_cast<size_t>(n * element_size(t.dtype)));
  std::mt19937 random(seed);
  for (int64_t i = 0; i < n; ++i) {
    double v = (static_cast<double>(random() % 20001) - 10000) / 5000;
    int64_t k = static_cast<int64_t>(random() % static_cast<uint32_t>(limit));
    switch (t.dtype) {
      case DType::F32: h.f32()[i] = static_cast<float>(v); break;
      case DType::F64: reinterpret_cast<double*>(h.bytes.data())[i] = v; break;
      case DType::I64: h.i64()[i] = k; break;
      case DType::I32: reinterpret_cast<int32_t*>(h.bytes.data())[i] = static_cast<int32_t>(k); break;
      case DType::Bool: h.bytes[static_cast<size_t>(i)] = static_cast<char>(k & 1); break;
      case DType::BF16: {
        float f = static_cast<float>(v);
        uint32_t u;
        std::memcpy(&u, &f, 4);
        reinterpret_cast<uint16_t*>(h.bytes.data())[i] = static_cast<uint16_t>(u >> 16);
        break;
      }
      default: ADD_FAILURE() << "no random values of this type";
    }
  }
  return h;
}

// Every element of a view of `h` in row-major order, as double.
inline std::vector<double> elements(const Host& h, std::span<const Expr> sizes, std::span<const Expr> strides,
                                    Expr offset, DType t, const std::function<int64_t(Expr)>& value = by_hint) {
  int64_t n = 1;
  for (Expr s : sizes) n *= evaluate(s, value);
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = evaluate(offset, value);
    for (size_t d = sizes.size(); d-- > 0;) {
      int64_t e = evaluate(sizes[d], value);
      at += rest % e * evaluate(strides[d], value);
      rest /= e;
    }
    const char* p = h.bytes.data() + at * element_size(t);
    double v = 0;
    auto read = [&]<class T>(T) {
      T x;
      std::memcpy(&x, p, sizeof x);
      v = static_cast<double>(x);
    };
    switch (t) {
      case DType::F32: read(float{}); break;
      case DType::F64: read(double{}); break;
      case DType::I64: read(int64_t{}); break;
      case DType::I32: read(int32_t{}); break;
      case DType::Bool: read(char{}); break;
      case DType::BF16: {
        uint16_t half;
        std::memcpy(&half, p, 2);
        uint32_t u = uint32_t{half} << 16;
        float f;
        std::memcpy(&f, &u, 4);
        v = f;
        break;
      }
      default: ADD_FAILURE() << "cannot read this type";
    }
    out.push_back(v);
  }
  return out;
}

// Plans whose kernels are run as dags too, and must agree.
inline schedule::Options with_dags() {
  schedule::Options options;
  options.keep_dags = true;
  return options;
}

// The buffers that a kernel's dag writes, by the plan's number, after verifying it and passing it through text.
inline std::map<int, std::vector<char>> run_dag(const loops::Dag& dag, const schedule::Plan& plan,
                                                const std::vector<char*>& base,
                                                const std::function<int64_t(Expr)>& value) {
  loops::verify(dag);
  const std::string text = loops::print(dag);
  const auto parsed = loops::parse_dag(text);
  loops::verify(*parsed);
  EXPECT_EQ(loops::print(*parsed), text);
  std::map<int, std::vector<char>> written;
  std::vector<void*> pointers;
  for (const loops::DagBuffer& b : dag.buffers()) {
    const schedule::Buffer& x = plan.buffers[static_cast<size_t>(b.id)];
    char* memory = base[static_cast<size_t>(b.id)];
    if (b.written) {
      const int64_t bytes = storage_elements(x.type, value) * element_size(x.type.dtype);
      EXPECT_EQ(bytes, evaluate(b.extent, value) * element_size(b.dtype));
      memory = written.emplace(b.id, std::vector<char>(memory, memory + bytes)).first->second.data();
    }
    pointers.push_back(memory);
  }
  std::vector<int64_t> sizes;
  for (Expr s : dag.sizes()) sizes.push_back(evaluate(s, value));
  loops::interpret(*parsed, pointers, sizes);
  return written;
}

// The same elements; sums of another order may be rounded elsewhere.
inline void expect_equal(const char* a, const char* b, DType t, size_t bytes) {
  if (t != DType::F32) {
    EXPECT_EQ(std::memcmp(a, b, bytes), 0);
    return;
  }
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    float x, y;
    std::memcpy(&x, a + i, 4);
    std::memcpy(&y, b + i, 4);
    const bool close = std::abs(x - y) <= 1e-5f * (1 + std::abs(y)) || std::memcmp(a + i, b + i, 4) == 0;
    EXPECT_TRUE(close || (std::isnan(x) && std::isnan(y))) << "element " << i / 4 << ": " << x << " and " << y;
    if (!close) return;
  }
}

// The outputs of one run. Arena buffers really share memory, so that a wrong lifetime shows.
inline std::vector<std::vector<double>> run_plan(const schedule::Plan& plan, std::vector<Host>& inputs,
                                                 const std::function<int64_t(Expr)>& value = by_hint) {
  std::vector<Host> memory(plan.buffers.size());
  std::vector<BufferLifetime> lives(plan.buffers.size());
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const schedule::Buffer& x = plan.buffers[b];
    memory[b].type = x.type;
    lives[b].in_arena = false;
    if (x.role == schedule::BufferRole::Input) {
      memory[b] = inputs[static_cast<size_t>(x.input)];
      continue;
    }
    int64_t n = storage_elements(x.type, value) * element_size(x.type.dtype);
    memory[b].bytes.assign(static_cast<size_t>(n), char(0x7f));
    lives[b] = {n, x.first_step, x.last_step, x.role == schedule::BufferRole::Arena};
  }
  const ArenaLayout layout = lay_out_arena(lives);
  std::vector<char> arena(static_cast<size_t>(layout.kept_bytes) + 64, char(0x7f));
  std::vector<char> early(static_cast<size_t>(layout.early_bytes) + 64, char(0x7f));
  std::vector<char*> base(plan.buffers.size());
  for (size_t b = 0; b < base.size(); ++b) base[b] = memory[b].bytes.data();
  for (size_t b = 0; b < base.size(); ++b) {
    if (!lives[b].in_arena || lives[b].first_step < 0) continue;
    base[b] = (layout.is_early(lives[b].last_step) ? early : arena).data() + layout.offsets[b];
  }
  auto run_steps = [&](const std::vector<schedule::Step>& steps) {
    for (const schedule::Step& s : steps) {
      if (&steps == &plan.steps && &s - steps.data() == layout.early_end)
        std::fill(early.begin(), early.end(), char(0x7f));
      if (auto* k = std::get_if<schedule::KernelStep>(&s)) {
        loops::verify(*k->kernel);
        const auto by_dag = k->dag ? run_dag(*k->dag, plan, base, value) : std::map<int, std::vector<char>>();
        std::vector<void*> pointers;
        for (const schedule::KernelArg& a : k->args) {
          int64_t size = element_size(plan.buffers[static_cast<size_t>(a.buffer)].type.dtype);
          pointers.push_back(base[static_cast<size_t>(a.buffer)] + evaluate(a.offset, value) * size);
        }
        std::vector<int64_t> sizes;
        for (Expr e : k->sizes) sizes.push_back(evaluate(e, value));
        int64_t items = evaluate(k->items, value);
        if (k->kernel->threads.block > 0 && (k->kernel->tile.rows > 0 || k->kernel->threads.parts > 1)) {
          // The interpreter knows no squares and no parts of rows.
          const auto size_of = [&](Expr s) {
            return sizes.at(static_cast<size_t>(std::find(k->kernel->sizes.begin(), k->kernel->sizes.end(), s) -
                                                k->kernel->sizes.begin()));
          };
          EXPECT_EQ(items, evaluate(loops::launched_items(*k->kernel), size_of));
          items = evaluate(loops::work_items(*k->kernel), size_of);
        }
        EXPECT_GE(evaluate(k->scratch, value), 0);
        // In two parts, as two threads would.
        loops::interpret(*k->kernel, pointers, sizes, items / 2, items);
        loops::interpret(*k->kernel, pointers, sizes, 0, items / 2);
        for (const auto& [b, bytes] : by_dag) {
          const schedule::Buffer& x = plan.buffers[static_cast<size_t>(b)];
          expect_equal(bytes.data(), base[static_cast<size_t>(b)], x.type.dtype, bytes.size());
          if (::testing::Test::HasFailure()) throw UserError(loops::print(*k->dag) + k->text);
        }
      } else if (auto* c = std::get_if<schedule::CopyStep>(&s)) {
        Host from = memory[static_cast<size_t>(c->from.buffer)];
        if (plan.buffers[static_cast<size_t>(c->from.buffer)].role == schedule::BufferRole::Arena) {
          std::memcpy(from.bytes.data(), base[static_cast<size_t>(c->from.buffer)], from.bytes.size());
        }
        Host& to = inputs[static_cast<size_t>(c->input)];
        std::vector<double> v = elements(from, c->from.sizes, c->from.strides, c->from.offset, c->from.dtype, value);
        EXPECT_EQ(static_cast<size_t>(storage_elements(to.type, value)), v.size());
        for (size_t i = 0; i < v.size(); ++i) to.f32()[i] = static_cast<float>(v[i]);
      } else if (auto* a = std::get_if<schedule::AssertStep>(&s)) {
        if (!*base[static_cast<size_t>(a->flag)]) throw UserError(a->message);
      } else {
        ADD_FAILURE() << "an extern step cannot run here: " << std::get<schedule::ExternStep>(s).op->name;
      }
    }
  };
  run_steps(plan.prepacked);
  run_steps(plan.steps);
  std::vector<std::vector<double>> out;
  for (const schedule::BufferView& o : plan.outputs) {
    if (o.buffer < 0) {
      out.emplace_back();
      continue;
    }
    EXPECT_NE(plan.buffers[static_cast<size_t>(o.buffer)].role, schedule::BufferRole::Arena);
    out.push_back(elements(memory[static_cast<size_t>(o.buffer)], o.sizes, o.strides, o.offset, o.dtype, value));
  }
  return out;
}

inline int kernels(const schedule::Plan& plan) {
  int n = 0;
  for (const schedule::Step& s : plan.steps) n += std::holds_alternative<schedule::KernelStep>(s);
  return n;
}

// The plan of which each kernel was built by itself, because its dag is kept. Where equal groups share one kernel, the
// plan must be the same.
inline schedule::Plan plan_with_dags(const graph::Graph& g, schedule::Options options) {
  const std::string shared = schedule::print(schedule::make_plan(g, options));
  options.keep_dags = true;
  schedule::Plan plan = schedule::make_plan(g, options);
  EXPECT_EQ(schedule::print(plan), shared);
  return plan;
}

// What fusion knows of the dependencies between groups must be what their reads say.
inline void check_dependencies(const graph::Graph& g) {
  const schedule::Options options;
  const schedule::Refused refused;
  schedule::Fusion fusion(g, options, refused);
  fusion.run();
  const int n = static_cast<int>(fusion.groups.size());
  std::vector<std::set<int>> needs(fusion.groups.size());
  for (int x = 0; x < n; ++x) {
    for (const int i : fusion.groups[x].nodes) {
      for (const schedule::Read& r : fusion.nodes[i].reads)
        if (const int p = r.node < 0 ? -1 : fusion.nodes[r.node].group; p >= 0 && p != x) needs[x].insert(p);
    }
  }
  for (int x = 0; x < n; ++x) {
    std::set<int> reached;
    std::vector<int> left(needs[x].begin(), needs[x].end());
    while (!left.empty()) {
      const int p = left.back();
      left.pop_back();
      if (reached.insert(p).second) left.insert(left.end(), needs[p].begin(), needs[p].end());
    }
    for (int p = 0; p < n; ++p) {
      if (!fusion.groups[x].alive || !fusion.groups[p].alive || x == p) continue;
      EXPECT_EQ(fusion.depends(x, p), reached.contains(p)) << "group " << x << " and group " << p;
    }
  }
}

// Fused and unfused plans must agree; returns the fused plan.
inline schedule::Plan check_plan(const graph::Graph& g, double tolerance = 1e-5) {
  check_dependencies(g);
  schedule::Plan fused = plan_with_dags(g, {});
  schedule::Plan plain = plan_with_dags(g, {.fuse = false});
  std::vector<Host> a, b;
  uint32_t seed = 1;
  for (const graph::Input& i : g.inputs) a.push_back(random_host(i.value->type, seed++));
  b = a;
  auto x = run_plan(fused, a), y = run_plan(plain, b);
  EXPECT_EQ(x.size(), y.size());
  for (size_t o = 0; o < x.size(); ++o) {
    EXPECT_EQ(x[o].size(), y[o].size());
    for (size_t i = 0; i < x[o].size() && i < y[o].size(); ++i) {
      bool close = std::abs(x[o][i] - y[o][i]) <= tolerance * (1 + std::abs(y[o][i])) ||
                   (std::isnan(x[o][i]) && std::isnan(y[o][i]));
      if (!close) {
        ADD_FAILURE() << "output " << o << " element " << i << ": fused " << x[o][i] << ", plain " << y[o][i] << "\n"
                      << schedule::print(fused);
        break;
      }
    }
  }
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].bytes, b[i].bytes) << "input " << i << " after the run";
  return fused;
}

}  // namespace vesta::testing
