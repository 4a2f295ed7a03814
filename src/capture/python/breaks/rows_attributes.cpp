// Attributes.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::DescriptorRead, "descriptor-read", "reads an attribute through a descriptor of class {}",
     "The descriptor is written in C, and Vesta does not know what it reads.",
     "read the attribute outside of the compiled function; the code before and after this line is compiled"},
    {Break::ComputedAttributeRead, "computed-attribute-read", "reads an attribute of class {} that C code computes",
     "Vesta cannot guard a value that C code computes.", "read the attribute outside of the compiled function"},
    {Break::HookObject, "hook-object", "uses an attribute of an object whose class has a {} that is not a function",
     "Vesta follows such a method only if it is a function.", "define the method as a function"},
    {Break::TensorDict, "tensor-dict", "reads the __dict__ of a tensor",
     "The tensor in a trace is a fake tensor, whose __dict__ is not the one of the real tensor.",
     "read the attribute by its name"},
    {Break::ViewRequiresGrad, "view-requires-grad", "reads Tensor.requires_grad of a view",
     "The trace records no gradients here, so it does not know the flag of a view.",
     "read requires_grad of the tensor that the view shows"},
    {Break::TensorHistory, "tensor-history", "reads Tensor.{} of a tensor with a gradient history",
     "The compiled function replaces autograd's record by one of its own.", "read it outside of the compiled function"},
    {Break::FunctionClosure, "function-closure", "reads a function's __closure__",
     "The cells are objects of the trace.", "read it outside of the compiled function"},
    {Break::AttributeOfUnknownClass, "attribute-of-unknown-class", "reads an attribute of an object of class {}",
     "The class is written in C, and Vesta does not know what the attribute reads.",
     "read the attribute outside of the compiled function; the code before and after this line is compiled"},
    {Break::MemberSet, "member-set", "sets a member of an object that holds a C value",
     "Vesta can undo writes of Python objects only.", kDoOutside},
    {Break::ComputedAttributeSet, "computed-attribute-set", "sets {} of an object of class {}",
     "C code stores the value, and Vesta cannot undo the write.", kDoOutside},
    {Break::AttributeSetByC, "attribute-set-by-c", "sets {} by a function that is not written in Python",
     "Vesta does not know what this function writes.", kDoOutside},
    {Break::TensorAttributeSet, "tensor-attribute-set", "sets an attribute of a tensor",
     "The tensor in a trace is a fake tensor, and the attribute would be lost with it.",
     "keep the value in another object, or set it outside of the compiled function"},
    {Break::ClassOrTensorAttributeSet, "class-or-tensor-attribute-set",
     "sets an attribute of a class or a tensor by a function of object",
     "Other code reads the attribute of the class, and a tensor in a trace is a fake tensor.",
     "keep the value on an instance"},
    {Break::FunctionAttributeSet, "function-attribute-set", "sets an attribute of a function",
     "Vesta does not undo writes to functions.", "keep the value in another object"},
    {Break::UnknownAttributeSet, "unknown-attribute-set", "sets an attribute of an object of class {}",
     "The class is written in C, and Vesta cannot undo the write.", kDoOutside},
};

}  // namespace

std::span<const BreakRow> attributes_rows() { return kRows; }

}  // namespace vesta::capture
