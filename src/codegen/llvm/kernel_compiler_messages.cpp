#include "codegen/llvm/kernel_compiler_messages.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "base/text_cursor.h"

namespace vesta::codegen {
namespace {

// Texts, each after its length: "5:vesta".
class Fields : TextCursor {
 public:
  Fields(std::string_view bytes, size_t count) : TextCursor(bytes, "") {
    while (here() != '\0') {
      const auto size = number_in<size_t>(take_while([](char c) { return c >= '0' && c <= '9'; }));
      VESTA_CHECK(size && accept(":") && *size <= rest().size(), "a message between processes is malformed");
      fields_.emplace_back(rest().substr(0, *size));
      pos_ += *size;
    }
    VESTA_CHECK(fields_.size() == count && rest().empty(), "a message between processes is cut short");
  }
  std::string next() { return std::move(fields_[next_++]); }
  int64_t number() {
    const auto n = number_in<int64_t>(fields_[next_++]);
    VESTA_CHECK(n, "a message between processes has no number in its place");
    return *n;
  }

 private:
  std::vector<std::string> fields_;
  size_t next_ = 0;
};

std::string join_fields(std::initializer_list<std::string> fields) {
  std::string out;
  for (const std::string& f : fields) out += fmt::format("{}:", f.size()) + f;
  return out;
}

std::string text_of(int64_t n) { return fmt::format("{}", n); }

}  // namespace

std::string to_bytes(const KernelCompilerRequest& r) {
  const Target& t = r.target;
  return join_fields({r.fingerprint, r.symbol, r.text, t.triple, t.cpu, t.features, text_of(t.vector_bytes),
                      text_of(t.avx512), text_of(t.half_convert), text_of(t.fma), text_of(t.streaming_stores),
                      text_of(r.memory), r.fault});
}

KernelCompilerRequest request_of(std::string_view bytes) {
  Fields in(bytes, 13);
  KernelCompilerRequest r;
  r.fingerprint = in.next();
  r.symbol = in.next();
  r.text = in.next();
  r.target.triple = in.next();
  r.target.cpu = in.next();
  r.target.features = in.next();
  r.target.vector_bytes = in.number();
  r.target.avx512 = in.number() != 0;
  r.target.half_convert = in.number() != 0;
  r.target.fma = in.number() != 0;
  r.target.streaming_stores = in.number() != 0;
  r.memory = in.number();
  r.fault = in.next();
  return r;
}

std::string to_bytes(const KernelCompilerAnswer& a) { return join_fields({a.object, a.error}); }

KernelCompilerAnswer answer_of(std::string_view bytes) {
  Fields in(bytes, 2);
  KernelCompilerAnswer a;
  a.object = in.next();
  a.error = in.next();
  return a;
}

}  // namespace vesta::codegen
