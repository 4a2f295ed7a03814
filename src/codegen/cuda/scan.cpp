#include "codegen/cuda/scan.h"

#include <fmt/format.h>

#include <algorithm>

namespace vesta::codegen {

namespace {
// Threads of a team that are neighbours in a warp, and how many values of a team meet in shared memory.
int64_t lanes_of(const TeamScan& s) { return s.columns > 0 ? 1 : std::min<int64_t>(s.team, 32); }
int64_t values_of(const TeamScan& s) { return s.team / lanes_of(s); }
}  // namespace

std::string begin_scan(const TeamScan& s) {
  std::string out = fmt::format("{} c{} = {};\n", s.type, s.number, s.identity);
  if (values_of(s) > 1)
    out += fmt::format("__shared__ {} shared_c{}[{}];\n", s.type, s.number,
                       2 * values_of(s) * std::max<int64_t>(1, s.columns));
  return out;
}

std::string scan_round(const TeamScan& s) {
  const int64_t lanes = lanes_of(s), values = values_of(s);
  const std::string_view t = s.type;
  const uint32_t r = s.number;
  const auto element = [&](const std::string& u) {
    return s.each > 1 ? fmt::format("x{}[{}]", r, u) : fmt::format("x{}", r);
  };
  std::string out;
  const auto line = [&]<class... A>(fmt::format_string<A...> format, A&&... a) {
    out += fmt::format(format, std::forward<A>(a)...) + "\n";
  };
  // Combines the elements of the thread.
  if (s.each > 1) {
    line("{} = {};", element("0"), s.value("0"));
    line("#pragma unroll");
    line("for (int u = 1; u < {}; ++u) {} = {};", s.each, element("u"), s.combined(element("u - 1"), s.value("u")));
  } else {
    line("{} {} = {};", t, element(""), s.value("0"));
  }
  const std::string last = element(std::to_string(s.each - 1));
  // y: combines the warp's elements up to the thread's last one. b: combines the row's elements before the thread's
  // first.
  line("{} y{} = {};", t, r, last);
  for (int64_t d = 1; d < lanes; d *= 2)
    line("{{ const {} z = from_lane_below<{}>(y{}, {}); if (lane % {} >= {}) y{} = {}; }}", t, t, r, d, lanes, d, r,
         s.combined("z", fmt::format("y{}", r)));
  const std::string carry = fmt::format("c{}", r), before = fmt::format("b{}_before", r), y = fmt::format("y{}", r);
  line("{} {} = {};", t, before, carry);
  if (values > 1) {
    // Rounds alternate between two arrays, so that no thread overwrites what another has yet to read.
    const std::string own = lanes > 1 ? "lane / 32" : "lane";
    const auto place = [&](const std::string& w) {
      const std::string at = fmt::format("{} * {} + {}", s.parity, values, w);
      return s.columns > 0 ? fmt::format("({}) * {} + threadIdx.x % {}", at, s.columns, s.columns) : at;
    };
    line("{}shared_c{}[{}] = {};", lanes > 1 ? "if (lane % 32 == 31) " : "", r, place(own), y);
    line("__syncthreads();");
    line("#pragma unroll");
    line("for (int w = 0; w < {}; ++w) {{", values);
    line("if (w == {}) {} = {};", own, before, carry);
    line("{} = {};", carry, s.combined(carry, fmt::format("shared_c{}[{}]", r, place("w"))));
    line("}}");
  }
  if (lanes > 1)
    line("{{ const {} z = from_lane_below<{}>({}, 1); if (lane % {} > 0) {} = {}; }}", t, t, y, lanes, before,
         s.combined(before, "z"));
  if (s.each > 1) {
    line("#pragma unroll");
    line("for (int u = 0; u < {}; ++u) {} = {};", s.each, element("u"), s.combined(before, element("u")));
  } else {
    line("{} = {};", element(""), s.combined(before, element("")));
  }
  if (values == 1)
    line("{} = {};", carry,
         lanes == 1 ? last : s.combined(carry, fmt::format("from_last_lane<{}>({}, {})", t, y, lanes)));
  return out;
}

}  // namespace vesta::codegen
