// Takes the place of NVRTC, of a version of its own: its code does nothing.
#include <cstddef>
#include <cstring>
#include <string>

namespace {

struct Program {
  std::string name;  // of its only kernel
};

std::string ptx_of(const Program& p) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry " + p.name + "(\n)\n{\n\tret;\n}\n";
}
constexpr char kCubin[] = "a cubin of the tests";

}  // namespace

extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return 0;
}
int nvrtcGetSupportedArchs(int* list) {
  list[0] = 80;
  list[1] = 90;
  return 0;
}
int nvrtcCreateProgram(Program** out, const char*, const char* name, int, const char* const*, const char* const*) {
  *out = new Program{std::string(name, std::strlen(name) - std::strlen(".cu"))};
  return 0;
}
int nvrtcDestroyProgram(Program** p) {
  delete *p;
  return 0;
}
int nvrtcCompileProgram(Program*, int, const char* const*) { return 0; }
int nvrtcGetProgramLogSize(Program*, size_t* bytes) {
  *bytes = 0;
  return 0;
}
int nvrtcGetProgramLog(Program*, char*) { return 0; }
int nvrtcGetCUBINSize(Program*, size_t* bytes) {
  *bytes = sizeof kCubin;
  return 0;
}
int nvrtcGetCUBIN(Program*, char* out) {
  std::memcpy(out, kCubin, sizeof kCubin);
  return 0;
}
int nvrtcGetPTXSize(Program* p, size_t* bytes) {
  *bytes = ptx_of(*p).size() + 1;
  return 0;
}
int nvrtcGetPTX(Program* p, char* out) {
  std::strcpy(out, ptx_of(*p).c_str());
  return 0;
}
const char* nvrtcGetErrorString(int) { return "an error of the tests"; }
}
