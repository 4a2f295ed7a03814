// Runs a saved program from C++ without Python, LLVM or a compiler.
//   In Python:  vesta.save(compiled, "encoder.vesta")     after calls with batches of several sizes
//   Here:       load encoder.vesta 5 8                    calls it with a 5 x 8 tensor and prints the result
#include <ATen/ATen.h>
#include <vesta/load.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int count, char** words) {
  if (count != 4) {
    std::fputs("usage: load FILE.vesta ROWS COLUMNS\n", stderr);
    return 2;
  }
  try {
    const auto encode = vesta::load<at::Tensor(at::Tensor)>(words[1]);
    const int64_t rows = std::atoll(words[2]), columns = std::atoll(words[3]);
    const at::Tensor x = at::linspace(-1, 1, rows * columns).view({rows, columns});
    const at::Tensor y = encode(x).to(at::kDouble).contiguous();
    for (int64_t i = 0; i < y.numel(); ++i) std::printf("%.9g\n", y.const_data_ptr<double>()[i]);
    for (const auto& [name, weight] : encode.weights())
      std::fprintf(stderr, "%s: %lld values\n", name.c_str(), static_cast<long long>(weight.numel()));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
